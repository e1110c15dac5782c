package job

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"millrace/task/value"
)

// Values of [Run.Messages]: what counts of what a process prints if it does not carry the key of
// the attempt, which only the process is told.
const (
	// MessagesOpen: every message counts.
	MessagesOpen = "open"
	// MessagesRecords: records and reports count.
	MessagesRecords = "records"
	// MessagesReports: status, progress, figures and entries of the log count. It is the default.
	MessagesReports = "reports"
	// MessagesKeyed: nothing counts.
	MessagesKeyed = "keyed"
	// MessagesOff: nothing counts, not even with the key: all output is text.
	MessagesOff = "off"
)

// MessageRules lists the values of [Run.Messages], from the laxest to the strictest.
var MessageRules = value.WordsOf[Run]("messages")

// Strictness returns the place in [MessageRules] of the stricter one of what a process's job says
// and what its worker allows at most; "" is the default of either.
func (r *Run) Strictness(worker string) int {
	rule := r.Messages
	if rule == "" {
		rule = MessagesReports
	}
	return max(slices.Index(MessageRules, rule), slices.Index(MessageRules, worker))
}

// ValidEncoding refuses what is no name of an encoding for [Run.Encoding]: one that IANA knows or
// browsers know, in small letters or capitals. Programs that convert nothing need no more than the
// names.
func ValidEncoding(name string) error {
	if name = strings.ToLower(strings.TrimSpace(name)); name == "" || slices.Contains(Encodings(), name) {
		return nil
	}
	return fmt.Errorf("run.encoding is %q, want a name such as gbk, shift_jis, euc-kr, big5, latin1, windows-1252, koi8-r or utf-16", name)
}

// Encodings lists the names, in small letters. Package worker/process/child converts each.
var Encodings = sync.OnceValue(func() []string { return strings.Fields(encodings) })

const encodings = `
437 850 852 855 860 862 863 865 866 ansi_x3.4-1968 ansi_x3.4-1986 arabic ascii asmo-708 big5
big5-hkscs ccsid00858 ccsid01140 chinese cn-big5 cp00858 cp01140 cp037 cp1250 cp1251 cp1252 cp1253
cp1254 cp1255 cp1256 cp1257 cp1258 cp367 cp437 cp819 cp850 cp852 cp855 cp860 cp862 cp863 cp865
cp866 cp936 csascii csbig5 cseuckr cseucpkdfmtjapanese csgb18030 csgb2312 csgbk csibm00858
csibm01140 csibm037 csibm1047 csibm855 csibm860 csibm863 csibm865 csibm866 csiso2022jp
csiso58gb231280 csiso885913 csiso885914 csiso885915 csiso885916 csiso88596e csiso88596i
csiso88598e csiso88598i csisolatin1 csisolatin2 csisolatin3 csisolatin4 csisolatin5 csisolatin6
csisolatin9 csisolatinarabic csisolatincyrillic csisolatingreek csisolatinhebrew cskoi8r cskoi8u
csksc56011987 csmacintosh cspc850multilingual cspc862latinhebrew cspc8codepage437 cspcp852
csshiftjis csunicode csutf16 csutf16be csutf16le csutf8 cswindows1250 cswindows1251 cswindows1252
cswindows1253 cswindows1254 cswindows1255 cswindows1256 cswindows1257 cswindows1258 cswindows874
cyrillic dos-874 ebcdic-cp-ca ebcdic-cp-nl ebcdic-cp-us ebcdic-cp-wt ebcdic-us-37+euro ecma-114
ecma-118 elot_928 euc-jp euc-kr extended_unix_code_packed_format_for_japanese gb18030 gb2312
gb_2312 gb_2312-80 gbk greek greek8 hebrew hz-gb-2312 ibm-1047 ibm00858 ibm01140 ibm037 ibm1047
ibm367 ibm437 ibm819 ibm850 ibm852 ibm855 ibm860 ibm862 ibm863 ibm865 ibm866 iso-10646-ucs-2
iso-2022-jp iso-8859-1 iso-8859-10 iso-8859-11 iso-8859-13 iso-8859-14 iso-8859-15 iso-8859-16
iso-8859-2 iso-8859-3 iso-8859-4 iso-8859-5 iso-8859-6 iso-8859-6-e iso-8859-6-i iso-8859-7
iso-8859-8 iso-8859-8-e iso-8859-8-i iso-8859-9 iso-celtic iso-ir-100 iso-ir-101 iso-ir-109
iso-ir-110 iso-ir-126 iso-ir-127 iso-ir-138 iso-ir-144 iso-ir-148 iso-ir-149 iso-ir-157 iso-ir-199
iso-ir-226 iso-ir-58 iso-ir-6 iso646-us iso8859-1 iso8859-10 iso8859-11 iso8859-13 iso8859-14
iso8859-15 iso8859-2 iso8859-3 iso8859-4 iso8859-5 iso8859-6 iso8859-7 iso8859-8 iso8859-9
iso88591 iso885910 iso885911 iso885913 iso885914 iso885915 iso88592 iso88593 iso88594 iso88595
iso88596 iso88597 iso88598 iso88599 iso_646.irv:1991 iso_8859-1 iso_8859-10:1992 iso_8859-14
iso_8859-14:1998 iso_8859-15 iso_8859-16 iso_8859-16:2001 iso_8859-1:1987 iso_8859-2
iso_8859-2:1987 iso_8859-3 iso_8859-3:1988 iso_8859-4 iso_8859-4:1988 iso_8859-5 iso_8859-5:1988
iso_8859-6 iso_8859-6-e iso_8859-6-i iso_8859-6:1987 iso_8859-7 iso_8859-7:1987 iso_8859-8
iso_8859-8-e iso_8859-8-i iso_8859-8:1988 iso_8859-9 iso_8859-9:1989 koi koi8 koi8-r koi8-ru
koi8-u koi8_r korean ks_c_5601-1987 ks_c_5601-1989 ksc5601 ksc_5601 l1 l10 l2 l3 l4 l5 l6 l8 l9
latin-9 latin1 latin10 latin2 latin3 latin4 latin5 latin6 latin8 logical mac macintosh ms932 ms936
ms_kanji pc-multilingual-850+euro shift-jis shift_jis sjis sun_eu_greek tis-620 ucs-2 unicode
unicode-1-1-utf-8 unicode11utf8 unicode20utf8 unicodefeff unicodefffe us us-ascii utf-16 utf-16be
utf-16le utf-8 utf16 utf8 visual windows-1250 windows-1251 windows-1252 windows-1253 windows-1254
windows-1255 windows-1256 windows-1257 windows-1258 windows-31j windows-874 windows-936
windows-949 x-cp1250 x-cp1251 x-cp1252 x-cp1253 x-cp1254 x-cp1255 x-cp1256 x-cp1257 x-cp1258
x-euc-jp x-gbk x-mac-cyrillic x-mac-roman x-mac-ukrainian x-sjis x-unicode20utf8 x-user-defined
x-x-big5
`
