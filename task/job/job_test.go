package job

import (
	"testing"
	"time"

	"millrace/task/value"
)

// A notice is told in words: to whom, of what, and how often again.
func TestNotifyWords(t *testing.T) {
	for _, c := range []struct {
		is   Notify
		want string
	}{
		{Notify{To: []string{"ops"}}, "ops"},
		{Notify{To: []string{"ops", "night"}, On: []string{"failure"}}, "ops, night of failure"},
		{Notify{To: []string{"ops"}, On: []string{"waiting"}, Remind: value.Duration(4 * time.Hour)}, "ops of waiting, again every 4h0m0s"},
	} {
		if got := c.is.Words(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
