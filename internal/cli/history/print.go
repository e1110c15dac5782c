package history

import (
	"fmt"

	"millrace/history/replay"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
)

// replayPrinter prints the result of a command: in lines, or as a JSON object.
type replayPrinter struct {
	a      *Commands
	asJSON bool
	person bool // a person types, and should be prompted
}

func (p *replayPrinter) prompt(x *replay.Session) {
	if p.person {
		fmt.Fprintf(p.a.Out, "(mr #%d) ", x.Seq())
	}
}

func (p *replayPrinter) print(answer *replay.Answer) error {
	if p.asJSON {
		return p.a.WriteLine(answer)
	}
	var lines []string
	if answer.Frame != nil && !answer.None {
		lines = wording.Point(answer.Frame, wording.PointTime)
	}
	for _, line := range append(lines, wording.Answered(answer, wording.PointTime)...) {
		if _, err := fmt.Fprintln(p.a.Out, term.Printable(line)); err != nil {
			return err
		}
	}
	return nil
}
