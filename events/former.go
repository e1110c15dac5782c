package events

import (
	"bytes"
	"encoding/json"
	"strings"

	"millrace/task"
	"millrace/task/limit"
)

// Logs of before December 2026 differ from those of today in three ways, within the same version of
// their facts. Readers of exports see the form of today: [ReadLine] converts.
//
//   - Changes of jobs and schedules lay on mr.job.<job> and mr.schedule.<schedule>, without the text
//     of the definition, which a bucket had. They are no facts any more ([FormerDefinition]).
//   - Timers lay in the log ([FormerTimer]). The log has none today; servers set them again.
//   - All admissions by limits lay on mr.admit. Today each scope has a subject.

// Former says what a message of such a log is; 0 for one that logs still have.
type Former int

// The messages that logs no longer have.
const (
	FormerDefinition Former = iota + 1
	FormerTimer
)

var formerPrefixes = []struct {
	prefix string
	is     Former
}{{"mr.job.", FormerDefinition}, {"mr.schedule.", FormerDefinition}, {"mr.cron.", FormerTimer}, {"mr.timer.", FormerTimer}}

// FormerOf says what lies on a subject of an export.
func FormerOf(subject string) Former {
	for _, f := range formerPrefixes {
		if strings.HasPrefix(subject, f.prefix) {
			return f.is
		}
	}
	return 0
}

// formerAdmit is the subject that all admissions had.
const formerAdmit = "mr.admit"

// today converts a message of a former log.
func (r *Record) today() {
	if r.Place != formerAdmit || r.Kind != KindLimit {
		return
	}
	var is struct {
		Grants []task.Grant               `json:"grants"`
		Rates  map[string]json.RawMessage `json:"rates"`
	}
	if json.Unmarshal(r.Raw, &is) != nil {
		return
	}
	counter := ""
	for name := range is.Rates {
		counter = max(counter, name)
	}
	for _, g := range is.Grants {
		if len(g.Limits) > 0 {
			counter = g.Limits[0]
			break
		}
	}
	scope := limit.ScopeOf(counter)
	name, _ := json.Marshal(scope) // a text
	r.Place = formerAdmit + "." + string(scope)
	r.Raw = bytes.Replace(r.Raw, []byte(`{`), append(append([]byte(`{"scope":`), name...), ','), 1)
}

// HiddenText tells whether a text has the form of one that an incident file hides: "~" and 12 digits
// of its hash. Any submitter can write such a text into a live log. It stands for a hidden text only
// up to the sequence that an [ExportHeader], an incident file or an imported log names.
func HiddenText(text string) bool {
	return len(text) == 13 && text[0] == '~' && strings.Trim(text[1:], "0123456789abcdef") == ""
}

// Hidden tells whether a JSON value has the form of one that an incident file hides; see
// [HiddenText].
func Hidden(value any) bool {
	switch v := value.(type) {
	case string:
		return HiddenText(v)
	case map[string]any:
		text, ok := v["redacted"].(string)
		return ok && len(v) == 2 && HiddenText(text)
	}
	return false
}
