package wording

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"millrace/internal/cli/term"
	"millrace/projections/view"
	"millrace/task"
)

// StepsText names steps of a function, with what each gave.
func StepsText(steps []task.Step) string {
	var parts []string
	for i := range steps {
		parts = append(parts, StepText(&steps[i]))
	}
	return strings.Join(parts, "; ")
}

// StepText names a step of a function, with what it gave.
func StepText(s *task.Step) string {
	text := s.Kind
	if s.Name != "" {
		text += " " + s.Name
	}
	switch {
	case s.Open:
		return fmt.Sprintf("%s failed in try %d, and is tried again: %s", text, s.Tries, term.Cut(s.Error, 200))
	case s.Error != "":
		return fmt.Sprintf("%s failed: %s", text, term.Cut(s.Error, 200))
	}
	return text + cmp.Or(gave(s), " is done")
}

// StepName is what people call a step of a function.
func StepName(s *task.Step) string { return cmp.Or(s.Name, s.Kind) }

// StepColumns are those of the steps of a function, at a moment.
func StepColumns(now time.Time) []term.Column[task.Taken] {
	type row = *task.Taken
	return []term.Column[task.Taken]{
		{Title: "#", Name: "place", Number: true, Cell: func(k row) term.Cell { return term.Plain(strconv.Itoa(k.Place)) }},
		term.Text("STEP", 0, func(k row) string { return StepName(&k.Step) }),
		term.Text("KIND", 2, func(k row) string { return k.Kind }),
		term.Tints("STATE", 0, func(k row) term.Cell { return term.Tinted(k.Is, StateCell(k.State()).Colour) }),
		term.Number("TRIES", 1, func(k row) string {
			if k.Kind != task.StepDo {
				return ""
			}
			return strconv.Itoa(max(k.Tries, 1))
		}),
		term.Text("TOOK", 0, func(k row) string {
			if took := k.Lasted(now); took > 0 {
				return Span(took)
			}
			return ""
		}),
		{Title: "BEGAN", Spare: 3, Cell: func(k row) term.Cell { return term.Plain(Clock(k.From)) }, At: func(k row) time.Time { return k.From }},
		term.Text("GAVE", -1, func(k row) string { return StepGave(k) }),
	}
}

// StepGave is what a step gave, why it failed, or what is waited for.
func StepGave(k *task.Taken) string {
	switch {
	case k.Error != "" && !k.Until.IsZero():
		return Words(term.Cut(k.Error, 200), "again at "+Clock(k.Until))
	case k.Error != "":
		return term.Cut(k.Error, 200)
	case k.Is == task.StepWaits && len(k.Children) > 0:
		var ids []string
		for _, id := range k.Children {
			ids = append(ids, string(id))
		}
		return term.Cut(Plural(len(ids), "child")+": "+strings.Join(ids, ", "), 200)
	case k.Is == task.StepWaits && k.Until.IsZero():
		return "for as long as it takes"
	case k.Is == task.StepWaits:
		return "until " + Clock(k.Until)
	}
	return stepResult(&k.Step)
}

// stepResult is what a step gave, or how much if that is stored apart.
func stepResult(s *task.Step) string {
	if s.Digest != "" {
		return ByteCount(int64(s.Size)) + ", stored apart"
	}
	return term.Cut(string(s.Result), 80)
}

// StepNode is a step of a task's function in a drawing, behind the one before it.
func StepNode(of task.ID, k *task.Taken, now time.Time) term.Node {
	id := func(place int) task.ID { return task.ID(fmt.Sprintf("%s step %d", of, place)) }
	n := term.Node{ID: id(k.Place), Name: StepName(&k.Step), Text: k.Is, State: k.State()}
	if took := k.Lasted(now); took > 0 {
		n.Text = Words(k.Kind, k.Is, Span(took))
	}
	if k.Place > 1 {
		n.Needs = []task.Need{{Task: id(k.Place - 1)}}
	}
	return n
}

// StepPhases are the steps of a function as phases of its task, beside those in which it waits or runs.
func StepPhases(d *task.Durable, now time.Time) (phases []view.Phase) {
	for _, k := range d.Taken() {
		if !k.From.IsZero() {
			phases = append(phases, view.Phase{Name: StepPhase + StepName(&k.Step), From: k.From, To: k.From.Add(k.Lasted(now))})
		}
	}
	return phases
}

// StepPhase begins the name of the phase of a step.
const StepPhase = "step "

func gave(s *task.Step) string {
	if is := stepResult(s); is != "" {
		return " gave " + is
	}
	return ""
}
