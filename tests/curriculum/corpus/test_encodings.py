import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.corpus.encodings import as_utf8, decode_source

CODE = "#include <a.h>\n\nint add(int a, int b) {\n  return a + b;\n}\n"
GERMAN = "Prüft die Größe des Puffers, öffnet die Datei und gibt den Fehler zurück, für Jürgen."
FRENCH = "Cette fonction vérifie la clé; à zéro le compteur reste incrémenté, même si l'opération échoue."
RUSSIAN = "Эта функция проверяет размер буфера и возвращает ошибку, если ключ недействителен."
CHINESE = "这个函数检查缓冲区的大小，如果键无效则返回错误。"
TRADITIONAL = "這個函數檢查緩衝區的大小，如果鍵無效則返回錯誤。"
JAPANESE = "この関数はバッファの大きさを調べ、キーが無効な場合はエラーを返す。"
KOREAN = "이 함수는 버퍼의 크기를 검사하고 키가 유효하지 않으면 오류를 반환합니다."
POLISH = "Zwraca błąd, jeśli klucz jest nieprawidłowy; każda zmiana zwiększa licznik."
CZECH = "Vrací chybu, pokud je klíč neplatný. Při každé změně se čítač zvýší."
TURKISH = "Anahtar geçersizse hata döndürür; her değişiklikte sayaç artırılır."
GREEK = "Αυτή η συνάρτηση ελέγχει το μέγεθος του απομονωτή και επιστρέφει σφάλμα."


def source(comment: str) -> str:
    return f"// {comment}\n{CODE}"


@pytest.mark.parametrize(
    ("comment", "stored", "encoding"),
    [
        (GERMAN, "latin-1", "cp1252"),
        (FRENCH, "cp1252", "cp1252"),
        ("Copyright © 2010 Niels Möller", "latin-1", "cp1252"),
        ("© 2010", "latin-1", "cp1252"),
        ("It doesn’t “work” at 90°", "cp1252", "cp1252"),
        (RUSSIAN, "cp1251", "cp1251"),
        (RUSSIAN, "koi8-r", "koi8_r"),
        (RUSSIAN, "cp866", "cp866"),
        (CHINESE, "gb18030", "gb18030"),
        (CHINESE, "gbk", "gb18030"),
        (TRADITIONAL, "big5", "big5"),
        (JAPANESE, "shift-jis", "cp932"),
        (JAPANESE, "euc-jp", "euc_jp"),
        (KOREAN, "euc-kr", "cp949"),
        (GERMAN, "utf-8", "utf_8"),
        (JAPANESE, "utf-8-sig", "utf_8"),
        (JAPANESE, "utf-16", "utf_16_le"),
        (RUSSIAN, "utf-32", "utf_32_le"),
    ],
)
def test_a_text_is_decoded_from_an_encoding_that_is_certain(comment, stored, encoding):
    decoded = decode_source(source(comment).encode(stored))
    assert decoded is not None
    assert (decoded.text, decoded.encoding) == (source(comment), encoding)


@pytest.mark.parametrize(
    ("comment", "stored"),
    [
        (POLISH, "cp1250"),
        (POLISH, "iso8859-2"),
        (CZECH, "cp1250"),
        (TURKISH, "cp1254"),
        (GREEK, "cp1253"),
        (GERMAN, "cp850"),
        (GERMAN, "mac-roman"),
        (FRENCH, "cp850"),
        ("中文", "gb18030"),
        ("유효하지", "euc-kr"),
        ("ключ", "koi8-r"),
        ("większa", "cp1250"),
        ("QPS：", "gb18030"),
    ],
)
def test_a_text_without_certain_encoding_has_none(comment, stored):
    assert decode_source(source(comment).encode(stored)) is None


@pytest.mark.parametrize("comment", [GERMAN, FRENCH, RUSSIAN, CHINESE, JAPANESE])
def test_utf8_with_a_damaged_byte_is_no_other_encoding(comment):
    assert decode_source(source(comment).encode() + b"// \xff\n") is None
    assert (
        decode_source(source(comment).encode()[:40] + b"\xc3\n" + source(comment).encode()) is None
    )


@pytest.mark.parametrize("stored", ["latin-1", "cp1251"])
def test_identifiers_are_ascii(stored):
    word = "größe" if stored == "latin-1" else "размер"
    assert decode_source(f"int {word} = 3;\n".encode(stored)) is None
    assert decode_source(f"int {word} = 3;\n".encode()) is not None


@given(text=st.text(), encoding=st.sampled_from(["utf-8-sig", "utf-16", "utf-32"]))
def test_a_byte_order_mark_decides(text, encoding):
    decoded = decode_source(text.encode(encoding))
    assert decoded is not None
    assert decoded.text == text


@given(raw=st.binary(max_size=200))
def test_any_bytes_are_decoded_or_have_no_encoding(raw):
    decoded = decode_source(raw)
    assert as_utf8(raw) == (raw if decoded is None else decoded.text.encode())
