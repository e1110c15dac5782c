package jobfile

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/schedule"
	"millrace/task/value"
)

// A schedule reads back from its file as it was, without what only the store sets.
func TestScheduleFiles(t *testing.T) {
	retries := 3
	for _, is := range []schedule.Definition{
		{Name: "pulse", When: job.Schedule{Every: value.Duration(time.Hour)}, Make: birth.Submission{Spec: &job.Spec{Run: &job.Run{Argv: []string{"echo", "<a>", "two\nlines", "yes", "1e3"}}}}},
		{Name: "nightly", When: job.Schedule{Cron: "30 2 * * *", Timezone: "Europe/Vienna", Calendar: []string{"sat,sun"}, Overlap: "skip"},
			Make: birth.Submission{Job: "backup", Params: map[string]json.RawMessage{"n": json.RawMessage("1.50"), "deep": json.RawMessage(`{"a":[1,null]}`)}, Labels: map[string]string{"env": "prod"}, Priority: 8, Retries: &retries}},
	} {
		stored := is
		stored.Anchor, stored.Since, stored.Paused = time.Unix(1, 0), time.Unix(2, 0), &schedule.Pause{Reason: "x"}
		text, err := MarshalSchedule(stored)
		if err != nil {
			t.Fatal(err)
		}
		back, err := ParseSchedule("", is.Name, text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		want, _ := json.Marshal(is)
		if have, _ := json.Marshal(back); string(have) != string(want) {
			t.Errorf("have %s\nwant %s", have, want)
		}
	}
}

func TestBadScheduleFiles(t *testing.T) {
	for text, want := range map[string]string{
		"":                   "1:1: the file is empty: a schedule needs at least `name`, `schedule` and `task`",
		"hello":              "want a schedule",
		"name: a\nname: b\n": "2:1:",
		"name: a b\nschedule: {every: 1h}\ntask: {job: x}\n":                               "1:1:",
		"name: a\nschedule:\n  every: 1h\n  evry: 2h\ntask: {job: x}\n":                    "4:3: there is no field \"evry\"",
		"name: a\nschedule: {every: soon}\ntask: {job: x}\n":                               "soon",
		"name: a\nschedule:\n  every: 1h\n  timezone: Nowhere\ntask: {job: x}\n":           "4:3: schedule.timezone",
		"name: a\nschedule: {every: 1h}\ntask:\n  job: x\n  labels: [a]\n":                 "5:3: task.labels is a list, want an object",
		"name: a\nschedule: {every: 1h}\ntask: {job: x, id: 01JD6Z8V3M0QK4T7W2X9Y5ABCD}\n": "3:1: task: id",
		"name: a\nschedule: {every: 1h}\ntask: {job: x, spec: {handler: y}}\n":             "3:1: task: set job, or spec",
		"name: a\nanchor: 2026-01-01T00:00:00Z\nschedule: {every: 1h}\ntask: {job: x}":     "2:1: anchor is the store's",
		"name: a\nschedule: {every: 1h}\ntask: {job: x}\nlapses: []":                       "4:1: lapses is the store's",
		strings.Repeat("[", 1000): "",
		"name: \xff":              "not UTF-8",
	} {
		is, err := ParseSchedule("s.yaml", "", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v; want %q", text, is, err, want)
		}
	}
	if _, err := ParseSchedule("", "b", []byte("name: a\nschedule: {every: 1h}\ntask: {job: x}\n")); err == nil || !strings.Contains(err.Error(), "that of another schedule") {
		t.Errorf("another name: %v", err)
	}
}

func FuzzParseSchedule(f *testing.F) {
	f.Add([]byte("name: a\nschedule: {every: 1h}\ntask: {job: x}\n"))
	f.Add([]byte("name: a\nschedule: {cron: '0 3 * * *'}\ntask: {spec: {run: {argv: [date]}}}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		is, err := ParseSchedule("", "", data)
		if err != nil {
			return
		}
		text, err := MarshalSchedule(is)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseSchedule("", is.Name, text); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
	})
}
