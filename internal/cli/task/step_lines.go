package task

import (
	"cmp"
	"fmt"
	"strings"
	"unicode/utf8"

	"millrace/internal/cli/term"
	"millrace/service/client"
	"millrace/task"
)

// maxLabel is the greatest width of a step's name before its lines.
const maxLabel = 24

// labels are the names of steps before their lines, in one column as far as the widths are known.
type labels struct{ widest int }

// of is the label of a step; "" for the whole.
func (l *labels) of(step string) string {
	if step == "" {
		return ""
	}
	step = term.Printable(step)
	l.widest = max(l.widest, min(utf8.RuneCountInString(step), maxLabel))
	return step + strings.Repeat(" ", max(l.widest-utf8.RuneCountInString(step), 0)) + " | "
}

// know makes room for the steps of members.
func (l *labels) know(members []client.Member) {
	for i := range members {
		if members[i].Task.Children == nil {
			l.of(members[i].Step)
		}
	}
}

// attemptMarks separate the attempts of each task in its output.
type attemptMarks struct{ last map[task.ID]int }

// before is the line that separates an attempt from what was shown of the task before; "" if
// nothing was, or the attempt is the same.
func (m *attemptMarks) before(id task.ID, attempt int) string {
	if m.last == nil {
		m.last = map[task.ID]int{}
	}
	last, shown := m.last[id]
	m.last[id] = attempt
	if !shown || last == attempt {
		return ""
	}
	return fmt.Sprintf("--- attempt %d ---", attempt)
}

// wholeText summarises a whole in one line: how many of its steps have ended, and which run.
func wholeText(members []client.Member) string {
	ended, failed, all := 0, 0, 0
	var running, waiting []string
	for i := range members {
		m := &members[i]
		s := m.Task.State
		if m.Task.Children != nil || m.Step == "" {
			continue
		}
		all++
		switch {
		case s == task.Running || s == task.Cancelling:
			name := m.Step
			if m.Task.Node != "" {
				name += " on " + m.Task.Node
			}
			running = append(running, name)
		case s.Failed():
			ended, failed = ended+1, failed+1
		case s.Terminal():
			ended++
		case s == task.Held && m.Task.Reason == task.HoldNeeds:
		case s != task.Unknown:
			waiting = append(waiting, m.Step+" "+cmp.Or(holdWords[m.Task.Reason], s.String()))
		}
	}
	text := fmt.Sprintf("%d of %d steps have ended", ended, all)
	if failed > 0 {
		text += fmt.Sprintf(", %d failed", failed)
	}
	for _, list := range [][]string{running, waiting} {
		if n := len(list); n > 3 {
			list = append(list[:3:3], fmt.Sprintf("%d more", n-3))
		}
		if len(list) > 0 {
			return text + ": " + strings.Join(list, ", ")
		}
	}
	return text
}

// holdWords say what a held step waits for.
var holdWords = map[string]string{task.HoldSignal: "waits for a signal", task.HoldLimit: "waits for its limits"}
