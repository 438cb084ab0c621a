import pytest

from curriculum.corpus.licences import HEAD_CHARACTERS, licence_of, stated_in_file
from schemas.spdx import UNRECOGNISED
from schemas.tree_licences import FolderLicence, LicenceFiles

ZLIB = FolderLicence(path="COPYING", licences=("Zlib",), holder="Adler")
ROOT = LicenceFiles(folders={"": ZLIB})
BSD = """\
// Redistribution and use in source and binary forms, with or without
// modification, are permitted provided that the following conditions are met:
// 1. Redistributions of source code must retain the above copyright notice.
"""
GPL = """\
/* This program is free software; you can redistribute it and/or modify it under the terms of the GNU
 * {kind}General Public License as published by the Free Software Foundation; either version 2{minor} of
 * the License, or (at your option) any later version. */
"""
PERMISSION = (
    "/* Permission is hereby granted, free of charge, to any person {}obtaining\n * a copy */\n"
)


@pytest.mark.parametrize(
    ("head", "licence"),
    [
        ("// SPDX-License-Identifier: BSL-1.0\n", "BSL-1.0"),
        (
            "/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */\n",
            "GPL-2.0-only WITH Linux-syscall-note",
        ),
        ("# SPDX-License-Identifier: MIT OR Apache-2.0\ncmake()\n", "MIT OR Apache-2.0"),
        ("// SPDX-License-Identifier: (GPL-2.0-only OR MIT)\n", "GPL-2.0-only OR MIT"),
        (
            "// SPDX-License-Identifier: (MIT or ISC) and (Zlib OR 0BSD)\n",
            "(MIT OR ISC) AND (Zlib OR 0BSD)",
        ),
        ("// (SPDX-License-Identifier: MIT)\n", "MIT"),
        (
            "/* SPDX-License-Identifier: ((GPL-2.0 WITH Linux-syscall-note) OR MIT) */\n",
            "GPL-2.0-only WITH Linux-syscall-note OR MIT",
        ),
        ('// Licensed under the Apache License 2.0 (the "License").\n', "Apache-2.0"),
        (
            GPL.format(kind="Lesser ", minor=".1")
            + "/* You should have received a copy of the GNU Lesser General Public License. */\n",
            "LGPL-2.1-or-later",
        ),
        (
            GPL.format(kind="", minor="")
            + "/* Under section 2 of the GNU General Public License version 2 you may link. */\n",
            "GPL-2.0-or-later",
        ),
        ("// SPDX-License-Identifier: Apache-2.0. Copyright 2020 A. Author\n", "Apache-2.0"),
        (
            "/**\n * SPDX-License-Identifier: MIT\n * SPDX-License-Identifier: ISC\n */\n",
            "ISC AND MIT",
        ),
        (
            "/*\n *  Catch v2.13.10\n *  Distributed under the Boost Software License, Version 1.0. (See\n"
            " *  accompanying file LICENSE_1_0.txt or copy at http://www.boost.org/LICENSE_1_0.txt)\n */\n",
            "BSL-1.0",
        ),
        ('// Licensed under the Apache License, Version 2.0 (the "License")\n', "Apache-2.0"),
        (
            "// Part of the LLVM Project, under the Apache License v2.0 with LLVM Exceptions.\n",
            "Apache-2.0 WITH LLVM-exception",
        ),
        (PERMISSION.format(""), "MIT"),
        ("// Licensed under the MIT License\n#ifndef A\n", "MIT"),
        (BSD, "BSD-2-Clause"),
        (BSD + "// Neither the name of A may be used to endorse\n", "BSD-3-Clause"),
        (BSD + "// 3. All advertising materials must\n// neither the name\n", "BSD-4-Clause"),
        (GPL.format(kind="", minor=""), "GPL-2.0-or-later"),
        (GPL.format(kind="Lesser ", minor=".1"), "LGPL-2.1-or-later"),
        (
            "/* under the terms of the GNU Affero General Public License\n * version 3 */\n",
            "AGPL-3.0-only",
        ),
        (
            "// under your choice of the MIT License or the Mozilla Public License, v. 2.0\n",
            "MIT OR MPL-2.0",
        ),
        (
            "// Licensed under the MPL 1.1/GPL 2.0: Mozilla Public License Version 1.1.\n"
            "// Alternatively, under the terms of the GNU General Public License Version 2 or later\n",
            "GPL-2.0-or-later OR MPL-1.1",
        ),
        (
            BSD + "// Alternatively, this software may be distributed under the terms of the GNU\n"
            "// General Public License version 2\n",
            "BSD-2-Clause OR GPL-2.0-only",
        ),
        (
            "// Licensed under the Apache License, Version 2.0 or the MIT license, at your option.\n",
            "Apache-2.0 OR MIT",
        ),
        (
            "// under the terms of either: the GNU Lesser General Public License, version 3 or any later\n"
            "// version, or the GNU General Public License, version 2 or any later version, or both\n",
            "GPL-2.0-or-later OR LGPL-3.0-or-later",
        ),
        ("// Licensed under the Frobnication Public Licence\n", UNRECOGNISED),
        ("// SPDX-License-Identifier: Frobnication-1.0\n", UNRECOGNISED),
        ("// SPDX-License-Identifier: LicenseRef-ours OR mit\n", "LicenseRef-ours OR MIT"),
        ("// SPDX-License-Identifier: LGPL-2.1+\n", "LGPL-2.1-or-later"),
        ("// under the terms of the GNU General Public License\n", "GPL-1.0-or-later"),
        (
            GPL.format(kind="", minor="")
            + "/* As a special exception, you may create a larger work that contains the Bison parser\n"
            " * skeleton. This exception was added in version 2.2 of Bison. */\n",
            "GPL-2.0-or-later WITH Bison-exception-2.2",
        ),
    ],
)
def test_a_file_states_its_licence_at_its_head(head, licence):
    found = licence_of(head + "int a;\n", "src/a.cc", ROOT, "ISC")
    assert (found.name, found.evidence) == (licence, "header")


@pytest.mark.parametrize(
    "text",
    [
        "int a;\n",
        "int a;\n// SPDX-License-Identifier: GPL-3.0-only\n",
        'const char* notice = "Licensed under the MIT License";\n',
        "// Use of this source code is governed by a BSD-style\n"
        "// license that can be found in the LICENSE file.\nint a;\n",
        "/* For conditions of distribution and use, see copyright notice in zlib.h */\nint a;\n",
        "// " + "x" * HEAD_CHARACTERS + "\n// SPDX-License-Identifier: MIT\n",
        f"// SPDX-License-Identifier: {'MIT AND ' * 40}\n",
        "",
    ],
)
def test_a_file_that_states_none_has_that_of_the_licence_file_else_the_corpus(text):
    found = licence_of(text, "src/a.cc", ROOT, "ISC")
    assert (found.name, found.evidence) == ("Zlib", "file: COPYING")
    assert (
        licence_of(text, "src/a.cc", LicenceFiles(folders={"other": ZLIB}), "ISC").evidence
        == "corpus"
    )
    assert licence_of(text, "src/a.cc", LicenceFiles(), "ISC").name == "ISC"
    unknown = licence_of(text, "src/a.cc", LicenceFiles(), None)
    assert (unknown.name, unknown.evidence) == (None, None)


def test_a_head_that_leaves_a_choice_between_licence_files_gives_the_choice():
    both = FolderLicence(path="COPYING", licences=("BSD-3-Clause", "GPL-2.0-only"), holder="Meta")
    head = (
        "/* Copyright (c) Yann Collet\n * Licensed under both the BSD-style license (found in the LICENSE\n"
        " * file) and the GPL (found in the COPYING file). You may select, at your option. */\n"
    )
    found = licence_of(head, "lib/a.c", LicenceFiles(folders={"": both}), None)
    assert (found.name, found.holder) == ("BSD-3-Clause OR GPL-2.0-only", "Yann Collet")
    found = licence_of("int a;\n", "lib/a.c", LicenceFiles(folders={"": both}), None)
    assert (found.name, found.holder) == ("BSD-3-Clause AND GPL-2.0-only", "Meta")


GPL_TITLE = (
    "GNU GENERAL PUBLIC LICENSE\n Version {}\n\nCopyright (C) Free Software Foundation, Inc.\n"
)


@pytest.mark.parametrize(
    ("text", "licence"),
    [
        ("Copyright (c) 2020 A\n\n" + PERMISSION.format("")[3:], "MIT"),
        (
            GPL_TITLE.format("3, 29 June 2007")
            + "under version 3 of the GNU Affero General Public License, or the GNU Lesser General Public "
            "License, or any later version\n",
            "GPL-3.0-only",
        ),
        (GPL_TITLE.format("2, June 1991"), "GPL-2.0-only"),
        ("Mozilla Public License Version 2.0\n", "MPL-2.0"),
        (
            "Your choice of the Redis Source Available License 2.0, or the Server Side Public License v1\n",
            "LicenseRef-RSALv2 OR SSPL-1.0",
        ),
        (
            "All files in lib use BSD 2-Clause, all other files use a GPLv2 license\n",
            "BSD-2-Clause AND GPL-2.0-only",
        ),
        (
            "Apache License Version 2.0, January 2004\n"
            + "long words " * 100
            + "\n---- LLVM Exceptions to the Apache 2.0 License ----\ncompatible with the GPLv2\n",
            "Apache-2.0 WITH LLVM-exception",
        ),
        ("Ask the author.\n", UNRECOGNISED),
        ("Please see the file LICENCE in the distribution for licensing details.\n", None),
        ("", None),
    ],
)
def test_a_licence_file_states_its_licences(text, licence):
    assert stated_in_file(text).licence == licence


def test_the_holder_of_a_gnu_licence_is_not_that_of_the_code():
    assert stated_in_file(GPL_TITLE.format("2, June 1991")).holder is None


@pytest.mark.parametrize("number", [30, 20_000])
def test_a_licence_file_with_endless_tags_is_unrecognised(number):
    text = "".join(f"SPDX-License-Identifier: LicenseRef-{each}\n" for each in range(number))
    licence = stated_in_file(text).licence
    assert licence is not None
    assert (licence == UNRECOGNISED) is (number > 30)


def test_a_file_below_folders_of_endless_licences_is_unrecognised():
    many = FolderLicence(
        path="COPYING", licences=tuple(f"LicenseRef-{each}" for each in range(999)), holder=None
    )
    for text in ("int a;\n", "// Use this at your choice of licence.\nint a;\n"):
        assert licence_of(text, "a.c", LicenceFiles(folders={"": many}), None).name == UNRECOGNISED
