package view

import (
	"slices"
	"strings"
	"testing"
)

// The word at the cursor becomes a key, or an existing value, and the rest of the query stays.
func TestComplete(t *testing.T) {
	t.Parallel()
	keys := keyNames()
	for i := range keys {
		if keys[i] += ":"; strings.HasSuffix(keys[i], partName+":") {
			keys[i] = strings.TrimSuffix(keys[i], "NAME:")
		}
	}
	known := KnownNames{Values: map[string][]string{"job": {"backup", "import", "my job"}, "label": {"env=prod", "env=test"}, "param": {"customer", "date"}, "result": {"rows"}}}
	for _, c := range []struct {
		text   string
		cursor int
		shown  []string
		first  string // the query with the first
	}{
		{"st", 2, []string{"state:", "step:"}, "state:"},
		{"", 0, keys, "state:"},
		{"param.c", 7, []string{"param.customer:"}, "param.customer:"},
		{"result.", 7, []string{"result.", "result.rows:"}, "result."},
		{"rec", 3, []string{"record."}, "record."},
		{"job:", 4, []string{"job:backup", "job:import", `job:"my job"`}, "job:backup "},
		{"job:p", 5, []string{"job:backup", "job:import"}, "job:backup "},
		{"job:im since:2h", 6, []string{"job:import"}, "job:import since:2h"},
		{"job:my", 6, []string{`job:"my job"`}, `job:"my job" `},
		{"state:error,ab", 14, []string{"state:error,abnormal"}, "state:error,abnormal "},
		{"boom label:env=t", 16, []string{"label:env=test"}, "boom label:env=test "},
		{"is:d", 4, []string{"is:dead"}, "is:dead "},
		{`"job:`, 5, nil, ""},
		{"node:x", 6, nil, ""},
		{"a  b", 2, keys, "a state: b"},
		{"job:é", 5, []string{"job:backup", "job:import", `job:"my job"`}, "job:backup "},
		{"x", 99, nil, ""},
	} {
		all := CompleteQuery(c.text, c.cursor, known)
		var shown []string
		for _, s := range all {
			shown = append(shown, s.Shown)
			if s.Cursor < 0 || s.Cursor > len(s.Text) {
				t.Errorf("%q: the cursor is at %d of %q", c.text, s.Cursor, s.Text)
			}
		}
		if !slices.Equal(shown, c.shown) || len(all) > 0 && all[0].Text != c.first {
			t.Errorf("%q at %d may become %q, %+v; want %q, %q", c.text, c.cursor, shown, all, c.shown, c.first)
		}
	}
}
