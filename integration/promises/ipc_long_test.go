package promises

import (
	"strings"
	"testing"
	"time"

	"millrace/task"
	"millrace/task/job"
	"millrace/task/output"
	"millrace/task/value"
)

// tooLong checks that a message over its size limit is refused, visibly for program and user.
func (w *programs) tooLong(t *testing.T) {
	long := func(typ, id string, n string) string {
		return `printf '{"type":"` + typ + `","id":"` + id + `","payload":{"a":"%0` + n + `d"}}\n' 0; IFS= read -r line; printf 'heard %s\n' "$line"` + "\n"
	}
	small := `echo '{"type":"RESULT","payload":1}'` + "\n"
	for name, c := range map[string]struct {
		line   string
		state  task.State
		reason string
		result string
		says   string // in the message of the end, and in the log
	}{
		"result":       {long("RESULT", "r", "70000"), task.Error, value.Task, "", "RESULT refused: it has 70008 bytes, want at most 65536"},
		"smaller":      {long("RESULT", "r", "70000") + small, task.Finished, "", "1", "RESULT refused: it has 70008 bytes, want at most 65536"},
		"records":      {long("INSERT_DATA", "r", "2000000") + small, task.Error, value.Task, "", "INSERT_DATA refused: its line has 2000050 bytes, want at most 1048576"},
		"checkpoint":   {long("CHECKPOINT", "r", "70000") + small, task.Finished, "", "1", "CHECKPOINT refused: it has 70008 bytes, want at most 65536"},
		"longer still": {long("LOG", "r", "9000000") + small, task.Finished, "", "1", "LOG refused: its line has 9000042 bytes, want at most 1048576"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openTask("IFS= read -r init\n" + c.line)
			s.Spec.Run.Stdin, s.Spec.Retry.Max = job.StdinOpen, 3
			s.Spec.Timeout = job.Timeout{Run: value.Duration(time.Minute)}
			if name == "result" {
				s.Spec.OnRestart = job.RestartAdopt
			}
			ended := w.end(t, s)
			wantEnd(t, ended, c.state, c.reason)
			if string(ended.Result) != c.result || ended.Attempt != 1 || c.state == task.Error && ended.Message != c.says {
				t.Errorf("attempt %d, result %s, message %s", ended.Attempt, ended.Result, ended.Message)
			}
			if ended.Usage == nil || ended.Usage.Refused != 1 {
				t.Errorf("its end says %+v", ended.Usage)
			}
			if said := w.lines(t, ended.ID, output.System); len(said) != 1 || said[0] != c.says {
				t.Errorf("the log says %q, want %q", said, c.says)
			}
			_, why, _ := strings.Cut(c.says, "refused: ")
			if heard := w.lines(t, ended.ID, output.Stdout); len(heard) != 1 || !strings.Contains(heard[0], `"payload":{"id":"r","ok":false,"error":"`+why+`"}`) {
				t.Errorf("the program printed %.200q, want an ACK that says %q", heard, why)
			}
		})
	}
}
