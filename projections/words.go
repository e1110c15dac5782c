package projections

import (
	"strconv"
	"strings"

	"millrace/projections/view"
	"millrace/task"
	"millrace/task/placement"
)

// The column words has rare values that lists query, as marks, and the searchable texts. The cost
// of a row depends on the number of its columns, so these share one. Most tasks have no mark.

// kindOfMark is the kind of a mark.
type kindOfMark byte

// Kinds of marks.
const (
	markLabel    kindOfMark = 'l' // its name, an equals sign, its value
	markParent   kindOfMark = 'p'
	markSchedule kindOfMark = 's'
	markBatch    kindOfMark = 'b'
	markPriority kindOfMark = 'n' // if it is not the usual one
	markLimited  kindOfMark = 'q' // it has not ended and has limits, or was admitted by the rate of its queue
	markReason   kindOfMark = 'r' // it has ended, with a reason code
	markMessage  kindOfMark = 'm' // the task's message, without an end: it comes last
)

// markBegin precedes each mark, markEnd follows it, and neither occurs elsewhere.
const markBegin, markEnd = "\x1e", "\x1f"

// mark is a mark as it appears among the words.
func mark(kind kindOfMark, value string) string {
	return anyMark(kind) + unmarked(value) + markEnd
}

// anyMark is the beginning of each mark of a kind.
func anyMark(kind kindOfMark) string { return markBegin + string(kind) }

// labelMark is the value of the mark of a label.
func labelMark(name, value string) string { return name + "=" + value }

// notInWords replaces the characters of marks in a text, and the zero byte, which LIKE takes for
// the end.
var notInWords = strings.NewReplacer(markBegin, " ", markEnd, " ", "\x00", " ")

func unmarked(text string) string {
	for i := range len(text) {
		if text[i] < ' ' {
			return notInWords.Replace(text)
		}
	}
	return text
}

// wordsOf returns the marks of a task, and its [view.Texts] that have no column.
func wordsOf(t *task.Task) string {
	text := view.CommandText(t)
	if t.Step != "" {
		text = t.Step + "\n" + text
	}
	text = marksOf(t) + unmarked(text)
	if t.Message != "" {
		text += anyMark(markMessage) + unmarked(t.Message)
	}
	return text
}

func marksOf(t *task.Task) (marks string) {
	add := func(kind kindOfMark, value string, is bool) {
		if is {
			marks += mark(kind, value)
		}
	}
	for name, value := range t.Labels {
		add(markLabel, labelMark(name, value), true)
	}
	add(markSchedule, t.Schedule, t.Schedule != "")
	add(markParent, string(t.Parent), t.Parent != "")
	add(markBatch, t.Batch, t.Batch != "")
	if p := t.Route.Priority(); p != placement.DefaultPriority {
		add(markPriority, strconv.Itoa(p), true)
	}
	ended := t.State.Terminal()
	add(markLimited, "", !ended && (t.Rated > 0 || t.Limited()))
	add(markReason, "", ended && t.Reason != "")
	return marks
}
