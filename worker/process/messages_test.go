package process

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"millrace/ipc"
	"millrace/task/job"
)

// TestGateOf: the stricter one of a job and its worker counts, and each attempt has a key of its
// own.
func TestGateOf(t *testing.T) {
	for _, c := range []struct {
		job, worker string
		want        ipc.Keyless
	}{
		{"", "", ipc.KeylessReports},
		{job.MessagesOpen, "", ipc.KeylessAll},
		{job.MessagesOpen, job.MessagesOpen, ipc.KeylessAll},
		{job.MessagesRecords, "", ipc.KeylessRecords},
		{job.MessagesReports, job.MessagesOpen, ipc.KeylessReports},
		{job.MessagesKeyed, job.MessagesOpen, ipc.KeylessNone},
		{job.MessagesOff, job.MessagesOpen, ipc.KeylessOff},
		{"", job.MessagesRecords, ipc.KeylessReports},
		{job.MessagesOpen, job.MessagesRecords, ipc.KeylessRecords},
		{job.MessagesOpen, job.MessagesKeyed, ipc.KeylessNone},
		{"", job.MessagesKeyed, ipc.KeylessNone},
		{job.MessagesOpen, job.MessagesOff, ipc.KeylessOff},
	} {
		tasks := &Tasks{Messages: c.worker}
		run := &job.Run{Messages: c.job}
		g, again := tasks.gate(run), tasks.gate(run)
		if g.Keyless != c.want || (g.Key == "") != (c.want == ipc.KeylessOff) || g.Key != "" && (g.Key == again.Key || len(g.Key) < 26) {
			t.Errorf("%q on %q: %d and the key %q, want %d", c.job, c.worker, g.Keyless, g.Key, c.want)
		}
	}
}

func TestWithheldWords(t *testing.T) {
	for _, c := range []struct{ typ, worker, want string }{
		{ipc.TypeSpawn, "", "a line of the output looks like a message (SPAWN) and is only text: it has no key; the libraries and millrace ipc add $MILLRACE_KEY, and with run: {messages: open} a job does without it"},
		{ipc.TypeInsertData, "", "a line of the output looks like a message (INSERT_DATA) and is only text: it has no key; the libraries and millrace ipc add $MILLRACE_KEY, and with run: {messages: records} a job does without it"},
		{ipc.TypeInsertData, job.MessagesRecords, "a line of the output looks like a message (INSERT_DATA) and is only text: it has no key; the libraries and millrace ipc add $MILLRACE_KEY, and with run: {messages: records} a job does without it"},
		{ipc.TypeStatus, job.MessagesReports, "a line of the output looks like a message (STATUS) and is only text: it has no key; the libraries and millrace ipc add $MILLRACE_KEY, and with run: {messages: reports} a job does without it"},
		{"complete", job.MessagesRecords, "a line of the output looks like a message (complete) and is only text: it has no key; the libraries and millrace ipc add $MILLRACE_KEY; this worker demands it (--messages records)"},
		{ipc.TypeStatus, job.MessagesKeyed, "a line of the output looks like a message (STATUS) and is only text: it has no key; the libraries and millrace ipc add $MILLRACE_KEY; this worker demands it (--messages keyed)"},
		{ipc.TypeStatus, job.MessagesOff, "a line of the output looks like a message (STATUS) and is only text: this worker obeys no messages (--messages off)"},
	} {
		if got := withheld(c.typ, c.worker); got != c.want {
			t.Errorf("%s on %q:\n%s\nwant\n%s", c.typ, c.worker, got, c.want)
		}
	}
}

// TestWithProgram: a task finds the worker's program last in its PATH.
func TestWithProgram(t *testing.T) {
	own, anyones := t.TempDir(), t.TempDir()
	if err := os.Chmod(anyones, 0o777); err != nil { // that is the point
		t.Fatal(err)
	}
	exe := filepath.Join(own, "millrace")
	for name, c := range map[string]struct {
		program string
		env     []string
		want    []string
	}{
		"none":               {"", []string{"PATH=/bin"}, []string{"PATH=/bin"}},
		"last":               {exe, []string{"PATH=/bin"}, []string{"PATH=/bin", "MILLRACE_EXE=" + exe, "PATH=/bin:" + own}},
		"of the last PATH":   {exe, []string{"PATH=/bin", "PATH=/opt"}, []string{"PATH=/bin", "PATH=/opt", "MILLRACE_EXE=" + exe, "PATH=/opt:" + own}},
		"there already":      {exe, []string{"PATH=" + own + ":/bin"}, []string{"PATH=" + own + ":/bin", "MILLRACE_EXE=" + exe}},
		"no PATH":            {exe, nil, []string{"MILLRACE_EXE=" + exe}},
		"a folder of anyone": {filepath.Join(anyones, "millrace"), []string{"PATH=/bin"}, []string{"PATH=/bin", "MILLRACE_EXE=" + filepath.Join(anyones, "millrace")}},
	} {
		if got := (&Tasks{Program: c.program}).withProgram(slices.Clone(c.env)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
