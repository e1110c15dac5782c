package embed

import (
	"errors"
	"iter"
	"strings"
	"testing"
	"time"
)

// What no server can have stored is refused before it lies in a directory, where a server would not
// start on it, or turn in circles.
func TestFillRefuses(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		m    Message
		want string
	}{
		"no time":             {Message{Seq: 1, Subject: "a"}, "was stored at 0001-01-01T00:00:00Z"},
		"before 1970":         {Message{Seq: 1, Subject: "a", At: time.Unix(-1, 0)}, "was stored at 1969-12-31T23:59:59Z"},
		"beyond nanoseconds":  {Message{Seq: 1, Subject: "a", At: noon.AddDate(300, 0, 0)}, "was stored at 2326"},
		"the last sequence":   {Message{Seq: 1<<64 - 1, Subject: "a", At: noon}, "beyond what a log can hold"},
		"no sequence":         {Message{Subject: "a", At: noon}, "comes after 0"},
		"a subject of nobody": {Message{Seq: 1, Subject: "a.>", At: noon}, "where nothing can lie"},
	} {
		var one iter.Seq2[Message, error] = func(yield func(Message, error) bool) { yield(c.m, nil) }
		err := Fill(t.TempDir(), Stream{Config: []byte(`{"name":"S"}`), Created: noon, Messages: one})
		if !errors.Is(err, ErrNoMessage) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
