package job

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/ianaindex"
	"golang.org/x/text/encoding/unicode"

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
