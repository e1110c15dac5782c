package output

import (
	"encoding/json"
	"millrace/task"
	"strings"
	"time"
)

// Lines is a batch of output lines of an attempt.
type Lines struct {
	// Task, Attempt and Epoch name the attempt.
	Task    task.ID `json:"task"`
	Attempt int     `json:"attempt"`
	Epoch   uint64  `json:"epoch"`
	// Lines are in the order in which they were printed.
	Lines []Line `json:"lines"`
	// Dropped is how many lines, of all attempts, were dropped and replaced by this entry.
	Dropped int `json:"dropped,omitempty"`
	// Encoded is the batch as JSON from [Lines.AppendJSON], if that was made already.
	Encoded []byte `json:"-"`
}

// Streams of a [Line].
const (
	Stdout = "stdout"
	Stderr = "stderr"
	// Log lines are entries with a level, and perhaps fields.
	Log = "log"
	// Status lines are progress messages of the program.
	Status = "status"
	// System lines are Millrace's own remarks.
	System = "system"
	// Setup lines are the output of a task's setup commands.
	Setup = "setup"
)

// Line is one line of output, or a piece of a very long one.
type Line struct {
	// N is the number of the line in the attempt, from 1; for several lines it is the last one's.
	N int `json:"n"`
	// At is when it was printed. Stream is stdout, stderr or log, and Text the line without its end.
	At     time.Time `json:"at"`
	Stream string    `json:"stream"`
	Text   string    `json:"text"`
	// Level is debug, info, warn or error, for entries of a log.
	Level string `json:"level,omitempty"`
	// Fields is a JSON object, or nil.
	Fields json.RawMessage `json:"fields,omitempty"`
	// More says that the line continues in the next one of its stream.
	More bool `json:"more,omitempty"`
	// Several is how many lines Text holds, separated by line feeds, if more than one: lines of a
	// stream that came at once are stored together. [Lines.OneByOne] splits them for readers.
	Several int `json:"several,omitempty"`
	// Upto is where the line ends in the output of an attempt that outlives its worker (on_restart:
	// adopt); for several lines, the last one's end. The next worker continues from there.
	Upto int64 `json:"upto,omitempty"`
}

// Count is how many lines l holds.
func (l *Line) Count() int { return max(l.Several, 1) }

// OneByOne gives each line of the batch an element of its own. An element whose text does not hold
// as many lines as Several says stays as it is.
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

// Told sums up the stored output of an attempt.
type Told struct {
	// Lines is the number of its last line. Upto is the end of the last line that has one.
	Lines int
	Upto  int64
	// Records is how many records there are.
	Records int
}

// Records is a batch of records that an attempt produced.
type Records struct {
	// Task, Attempt and Epoch name the attempt.
	Task    task.ID `json:"task"`
	Attempt int     `json:"attempt"`
	Epoch   uint64  `json:"epoch"`
	// First is the number of the first item within the attempt, from 0.
	First int `json:"first"`
	// Items are the records, each any JSON.
	Items []json.RawMessage `json:"items"`
	// Dropped is how many records, of all attempts, were dropped and replaced by this entry, and
	// Reason why.
	Dropped int    `json:"dropped,omitempty"`
	Reason  string `json:"reason,omitempty"`
	// Word is a random word of this batch, which no other program can know before the batch is
	// stored. Again says that the batch may have been stored before. Neither is stored with it.
	Word  string `json:"-"`
	Again bool   `json:"-"`
}
