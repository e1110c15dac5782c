package child

import (
	"testing"

	"millrace/task/job"
)

// TestEncodingOf: each name means what programs that are told it write.
func TestEncodingOf(t *testing.T) {
	for _, c := range []struct{ name, bytes, text string }{
		{"gbk", "\xc8\xce\xce\xf1\xcd\xea\xb3\xc9", "任务完成"}, {"GBK", "\xc8\xce", "任"}, {"gb2312", "\xc8\xce", "任"}, {"gb18030", "\xc8\xce", "任"},
		{"latin1", "caf\xe9", "café"}, {"iso-8859-1", "caf\xe9", "café"}, {"ISO-8859-15", "\xa4", "€"}, {"windows-1252", "\x80", "€"}, {"cp1252", "\x80", "€"},
		{"shift_jis", "\x8e\xa9", "自"}, {"sjis", "\x8e\xa9", "自"}, {"euc-jp", "\xbc\xab", "自"}, {"big5", "\xa5\xf4", "任"}, {"euc-kr", "\xc7\xd1", "한"},
		{"koi8-r", "\xcf", "о"}, {"windows-1251", "\xee", "о"}, {"ibm866", "\xae", "о"}, {"cp437", "\x82", "é"}, {"ibm850", "\x82", "é"},
		{"utf-16", "\xff\xfeh\x00i\x00", "hi"}, {"utf-16", "\xfe\xff\x00h\x00i", "hi"}, {"utf-16", "h\x00i\x00", "hi"}, {"utf-16le", "h\x00", "h"}, {"UTF-16BE", "\x00h", "h"},
	} {
		e, err := encodingOf(c.name)
		if err == nil {
			err = job.ValidEncoding(c.name)
		}
		if err != nil {
			t.Error(err)
			continue
		}
		if got, err := e.NewDecoder().String(c.bytes); err != nil || got != c.text {
			t.Errorf("%s: %q is %q, %v, want %q", c.name, c.bytes, got, err, c.text)
		}
	}
	for _, name := range []string{"", "utf-8", "UTF8"} {
		if e, err := encodingOf(name); e != nil || err != nil {
			t.Errorf("%q is %v, %v", name, e, err)
		}
	}
	for _, name := range []string{"klingon", "iso-2022-kr", "-"} {
		if _, err := encodingOf(name); err == nil || job.ValidEncoding(name) == nil {
			t.Errorf("%q is an encoding", name)
		}
	}
	for _, name := range job.Encodings() { // a job that is accepted can run
		if _, err := encodingOf(name); err != nil {
			t.Error(err)
		}
	}
}
