package projections

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"millrace/events"
	"millrace/projections/view"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/quota"
)

// No text or label is mistaken for a mark, and no mark of one value for another's.
func TestWordsAndMarks(t *testing.T) {
	spec := func(command string) *job.Spec { return &job.Spec{Run: &job.Run{Shell: command}} }
	work := func(command string, change func(w *task.Work)) task.Work {
		w := task.Work{Spec: spec(command), Route: "default.5"}
		change(&w)
		return w
	}
	pretender := mark(markParent, "P") + mark(markSchedule, "nightly") + mark(markBatch, "B") + mark(markPriority, "9") + mark(markLimited, "") + mark(markLabel, "team=images")
	tasks := []task.Task{
		{ID: "01JNAT0000000000000000000A", State: task.Pending, Work: work("plain", func(*task.Work) {})},
		{ID: "01JNAT0000000000000000000B", State: task.Pending, Work: work(pretender, func(*task.Work) {})},
		{ID: "01JNAT0000000000000000000C", State: task.Pending, Message: "pots\x00 and pans" + pretender, Work: work("x", func(*task.Work) {})},
		{ID: "01JNAT0000000000000000000D", State: task.Pending, Work: work("x", func(w *task.Work) { w.Parent = "P" })},
		{ID: "01JNAT0000000000000000000E", State: task.Pending, Work: work("x", func(w *task.Work) { w.Schedule = "nightly" })},
		{ID: "01JNAT0000000000000000000F", State: task.Pending, Batch: "B", Work: work("x", func(*task.Work) {})},
		{ID: "01JNAT0000000000000000000G", State: task.Pending, Work: work("x", func(w *task.Work) { w.Route = "default.9" })},
		{ID: "01JNAT0000000000000000000H", State: task.Pending, Work: work("x", func(w *task.Work) { w.Labels = map[string]string{"team": "images", "a": "b" + markEnd + markBegin} })},
		{ID: "01JNAT0000000000000000000I", State: task.Pending, Work: work("x", func(w *task.Work) { w.Labels = map[string]string{"team": "image"} })},
		{ID: "01JNAT0000000000000000000J", State: task.Held, Throttled: true, Work: work("x", func(*task.Work) {})},
	}
	s := open(t, "")
	f, err := newFold(t.Context(), s, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range tasks {
		f.changes = append(f.changes, change{task: k, isNew: true})
	}
	f.noteTexts([]events.Record{{Seq: 1}})
	if err := f.writeTasks(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := f.w.close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		filter view.Filter
		want   string // the last letters of ids
	}{
		{"all", view.Filter{}, "ABCDEFGHIJ"},
		{"roots", view.Filter{Roots: true}, "ABCEFGHIJ"},
		{"schedule", view.Filter{Schedule: "nightly"}, "E"},
		{"another schedule", view.Filter{Schedule: "night"}, ""},
		{"batch", view.Filter{Batch: "B"}, "F"},
		{"a priority", view.Filter{Priorities: []int{9}}, "G"},
		{"the usual priority", view.Filter{Priorities: []int{5}}, "ABCDEFHIJ"},
		{"either", view.Filter{Priorities: []int{5, 9}}, "ABCDEFGHIJ"},
		{"a label", view.Filter{Labels: map[string]string{"team": "images"}}, "H"},
		{"a label with signs", view.Filter{Labels: map[string]string{"a": "b" + markEnd + markBegin}}, "H"},
		{"part of a label", view.Filter{Labels: map[string]string{"tea": "images"}}, ""},
		{"what follows a zero byte", view.Filter{Text: "and PANS"}, "C"},
		{"a zero byte", view.Filter{Text: "s\x00 a"}, "C"},
		{"what marks say is no text", view.Filter{Text: "=images", Labels: map[string]string{"team": "image"}}, ""},
	} {
		c.filter.OldestFirst = true
		page, err := s.inRows(t.Context(), c.filter, "", 50)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, k := range page.Tasks {
			got += string(k.ID[25])
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	var limited []task.ID
	if _, _, err := s.EachLimited(t.Context(), func(k quota.Stand, _ quota.Counters, _ *task.Grant) { limited = append(limited, k.ID) }); err != nil || !slices.Equal(limited, []task.ID{tasks[9].ID}) {
		t.Errorf("under limits are %v, %v", limited, err)
	}
}

// No query of SQLite searches in a document: values that lists query have a column, or a mark among
// the words.
func TestNoQueryLooksIntoDocuments(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 20 {
		t.Fatal(files, err)
	}
	looks := regexp.MustCompile(`(?i)json_\w+\(|instr\(\s*doc\b|\bdoc\s+(LIKE|GLOB|REGEXP|MATCH)\b|->>?\s*'`)
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if found := looks.FindString(string(text)); found != "" && !strings.HasSuffix(name, "_test.go") {
			t.Errorf("%s asks SQLite to look into a document: %s", name, found)
		}
	}
}
