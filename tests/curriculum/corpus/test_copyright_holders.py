import pytest

from curriculum.corpus.copyright_holders import holder_in


@pytest.mark.parametrize(
    ("text", "holder"),
    [
        ("// Copyright 2003-2009 Google Inc.  All rights reserved.", "Google"),
        ("// Copyright (c) 2011 The LevelDB Authors. All rights reserved.", "The LevelDB Authors"),
        ("/*\n * Copyright (C) Daniel Stenberg, <daniel@haxx.se>, et al.\n */", "Daniel Stenberg"),
        ("# Copyright Louis Dionne 2013-2022", "Louis Dionne"),
        (
            "// SPDX-FileCopyrightText: 2013 - 2025 Niels Lohmann <https://nlohmann.me>",
            "Niels Lohmann",
        ),
        (
            "// Copyright (c) 2012 - present, Victor Zverovich and {fmt} contributors",
            "Victor Zverovich and {fmt} contributors",
        ),
        ("(C) 2001 Qihoo 360", "Qihoo 360"),
        ("// © 2020 Microsoft Corporation", "Microsoft"),
        (
            "Copyright 2018 Meta Platforms, Inc. and affiliates.",
            "Meta Platforms",
        ),
        (
            "COPYRIGHT AND PERMISSION NOTICE\n\nCopyright (c) 1996 - 2026, Daniel Stenberg",
            "Daniel Stenberg",
        ),
        ("Copyright (c) 2020 Anders Owner", "Anders Owner"),
        ("Copyright [yyyy] [name of copyright owner]", None),
        ("Copyright (C) <year>  <name of author>", None),
        ("(c) You must retain, in the Source form, all copyright notices", None),
        ("Redistributions must retain the above copyright notice", None),
        ("Copyright (c) " + "x" * 200, None),
        ("", None),
    ],
)
def test_a_text_names_its_first_copyright_holder(text, holder):
    assert holder_in(text) == holder
