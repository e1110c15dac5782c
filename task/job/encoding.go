package job

import (
	"fmt"
	"strings"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/ianaindex"
	"golang.org/x/text/encoding/unicode"
)

// EncodingOf returns the encoding with a name of [Run.Encoding], or nil for UTF-8, which needs no
// conversion. The name is one that IANA knows or browsers know, in small letters or capitals.
func EncodingOf(name string) (encoding.Encoding, error) {
	switch strings.ToLower(name) {
	case "", "utf-8", "utf8", "unicode-1-1-utf-8":
		return nil, nil
	case "utf-16", "utf16":
		return unicode.UTF16(unicode.LittleEndian, unicode.UseBOM), nil // as Windows writes it
	}
	if e, err := ianaindex.IANA.Encoding(name); err == nil && e != nil {
		return e, nil
	}
	if e, err := htmlindex.Get(name); err == nil && e != encoding.Replacement {
		return e, nil
	}
	return nil, fmt.Errorf("run.encoding is %q, want a name such as gbk, shift_jis, euc-kr, big5, latin1, windows-1252, koi8-r or utf-16", name)
}
