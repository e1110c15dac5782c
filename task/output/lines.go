package output

import (
	"encoding/json"
	"millrace/task"
	"strings"
	"time"
)

// Lines is a batch of what an attempt printed.
type Lines struct {
	Task    task.ID `json:"task"`
	Attempt int     `json:"attempt"`
	Epoch   uint64  `json:"epoch"`
	Lines   []Line  `json:"lines"`
	// Dropped is how many lines, of all attempts, were dropped in whose place this stands.
	Dropped int `json:"dropped,omitempty"`
	// Encoded is the batch as JSON, if somebody has made that already, with [Lines.AppendJSON].
	Encoded []byte `json:"-"`
}

// Streams of a [Line].
const (
	Stdout = "stdout"
	Stderr = "stderr"
	// Log lines are entries with a level, and perhaps fields.
	Log = "log"
	// Status lines are what the program said of its progress.
	Status = "status"
	// System lines are Millrace's own remarks.
	System = "system"
	// Setup lines are what the setup commands of a task printed.
	Setup = "setup"
)

// Line is one line of output, or a piece of a very long one.
type Line struct {
	// N counts the lines of the attempt, from 1; of several it is the last one's.
	N      int       `json:"n"`
	At     time.Time `json:"at"`
	Stream string    `json:"stream"`
	Text   string    `json:"text"`
	// Level is debug, info, warn or error, for entries of a log.
	Level string `json:"level,omitempty"`
	// Fields is a JSON object, or nil.
	Fields json.RawMessage `json:"fields,omitempty"`
	// More says that the line goes on in the next one of its stream.
	More bool `json:"more,omitempty"`
	// Several is how many lines Text holds, parted by line feeds, if it is more than
	// one: lines of a stream that came at once are stored together. Who reads them
	// gets them one by one; see [Lines.OneByOne].
	Several int `json:"several,omitempty"`
	// Upto is where the line ends in what the attempt has said, if that outlives its worker
	// (on_restart: adopt), of several the last one. The next worker goes on from there.
	Upto int64 `json:"upto,omitempty"`
}

// Count is how many lines l stands for.
func (l *Line) Count() int { return max(l.Several, 1) }

// OneByOne has each line of the batch in an element of its own. One whose text
// does not hold as many lines as it says stays as it is.
func (b *Lines) OneByOne() {
	n := 0
	for i := range b.Lines {
		if l := &b.Lines[i]; l.Several > 1 && strings.Count(l.Text, "\n") != l.Several-1 {
			l.Several = 0
		}
		n += b.Lines[i].Count()
	}
	if n == len(b.Lines) {
		return
	}
	all := make([]Line, 0, n)
	for i := range b.Lines {
		l := b.Lines[i]
		if l.Several <= 1 {
			all = append(all, l)
			continue
		}
		text := l.Text
		first := l.N - l.Several + 1
		l.Several = 0
		for n := first; n <= b.Lines[i].N; n++ {
			l.N = n
			l.Text, text, _ = strings.Cut(text, "\n")
			all = append(all, l)
		}
	}
	b.Lines = all
}

// Told is what is stored of what an attempt has said.
type Told struct {
	// Lines is the number of its last line, and Upto the last place that a line has.
	Lines int
	Upto  int64
	// Records is how many there are.
	Records int
}

// Records is a batch of what an attempt produced.
type Records struct {
	Task    task.ID `json:"task"`
	Attempt int     `json:"attempt"`
	Epoch   uint64  `json:"epoch"`
	// First is the number of the first item within the attempt, from 0.
	First int               `json:"first"`
	Items []json.RawMessage `json:"items"`
	// Dropped is how many records, of all attempts, were dropped in whose place this
	// stands, and Reason why.
	Dropped int    `json:"dropped,omitempty"`
	Reason  string `json:"reason,omitempty"`
}
