package history

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/events"
	"millrace/history/incident"
	"millrace/history/replay"
	"millrace/internal/cli/connect"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/projections/view"
	"millrace/service/inspect"
)

// Exit codes of replay beside the common ones.
const (
	replayNone    = 1
	replayDamaged = 3
)

// replayFlags are the flags of `millrace replay`.
type replayFlags struct {
	settings.Output
	focus       [5]string // by the order of replay.FocusKinds
	from, until string
	commands    []string
	plain       bool
	with        string
	bound       inspect.Bound
}

// ReplayCommand is millrace replay.
func (a *Commands) ReplayCommand() *cobra.Command {
	var f replayFlags
	c := &cobra.Command{
		Use: "replay [FILE]", Aliases: []string{"debug"},
		Short: "Step through the log, an export or an incident file, forward and back",
		Long: `Steps through a span of the log, of an export ("millrace events export"; - is stdin), or of an
incident file ("millrace incident export"), which keeps the marks that are made. At each
event it says what changed, by what it was decided, what the alternatives were, and who owed what
before and after. It runs to breakpoints, forward and back, and changes nothing.

On a terminal it fills the screen, and a key is a command; ? lists the keys, q ends. Elsewhere, and
with --plain, commands come from stdin line by line, or from -c; a semicolon ends one as well:

` + commandsHelp() + `
The names in gdb and delve work, too. An expression sees the event (seq, type, about, actor, at,
stored, by, fact), the thing that it is about (task, node, queue, breaker) and the task before it
(was), with fields as in JSON: task.attempt > 1 and was.state == "running".
docs/history.md has more.

With --with it starts your program instead, whose workers run again what they have recorded: each task of a
function that has ended by itself is given its parameters, signals, children and the outcomes of its steps, no
step is done again, and the first task that ends otherwise is printed with both sides. The program may be a
debugger, and the terminal is its own: --with "dlv exec ./shop -- work". It sees no server.

Ends with 0, with 1 if the last search found nothing or a task ends otherwise, with 3 if events of the file are missing
or unreadable; you can step through its intact parts.`,
		Example: `  millrace replay --task ID -c "n; n; p task.state"
  millrace replay -c "b state error; c; k"
  millrace replay crash.mri --with "./shop work"
  millrace events export > log.jsonl
  millrace replay log.jsonl --from -1h -c "b broken; c" -o json`,
		Args: settings.Takes(0, 1, "file"),
	}
	fs := c.Flags()
	for i, what := range []string{"look at the task with this `id`", "look at this `node`", "look at this `queue`", "look at this `schedule`", "look at the limit with this `name`, as limit ls has it"} {
		fs.StringVar(&f.focus[i], replay.FocusKinds[i], "", what)
	}
	fs.StringVar(&f.from, "from", "", "begin at a `moment`: a sequence of the log, or a time: -10m, 12:00, 2026-03-01; the log before it is read as well")
	fs.StringVar(&f.until, "until", "", "end at a `moment`")
	fs.StringArrayVarP(&f.commands, "command", "c", nil, "run these `commands` and end (repeat it)")
	fs.BoolVar(&f.plain, "plain", false, "commands and lines instead of the full screen, on a terminal, too")
	fs.StringVar(&f.with, "with", "", "have this `program`, as a line that starts it, run the recorded tasks of its functions again")
	f.bound.Flag(fs)
	f.Flags(c, "text", "json")
	c.RunE = func(c *cobra.Command, args []string) error {
		focus, err := f.looksAt()
		if err != nil {
			return term.Misuse(c, "%w", err)
		}
		span, err := a.between(c, f.from, f.until)
		if err != nil {
			return err
		}
		file := strings.Join(args, "")
		if c.Flags().Changed("with") {
			if f.from != "" || len(f.commands) > 0 || f.plain || focus.Kind != "" && f.focus[0] == "" {
				return term.Misuse(c, "--with goes with --task and --until alone")
			}
			return a.rerun(c.Context(), &f, file, span[1])
		}
		if file == "-" && len(f.commands) == 0 {
			return term.Misuse(c, "stdin is the export: give commands with -c")
		}
		for _, line := range f.commands {
			for _, do := range replay.Split(line) {
				if err := replay.Known(do); err != nil {
					return term.Misuse(c, "-c: %w", err)
				}
			}
		}
		ctx, stop := context.WithCancel(c.Context())
		defer stop()
		go func() { _ = settings.Ease(ctx, 0, settings.AtOnce) }() // it ends with ctx
		return a.replay(ctx, &f, file, focus, span)
	}
	return c
}

// commandsHelp lists the commands of a session.
func commandsHelp() string {
	var text strings.Builder
	for _, c := range replay.Commands() {
		fmt.Fprintf(&text, "  %s\n", wording.ReplayCommand(&c))
	}
	return text.String()
}

// looksAt returns the focus that the flags choose.
func (f *replayFlags) looksAt() (focus replay.Focus, err error) {
	for i, id := range f.focus {
		switch {
		case id == "":
		case focus.Kind != "":
			return focus, fmt.Errorf("--%s and --%s are both given; choose one, `o` looks at the other", focus.Kind, replay.FocusKinds[i])
		default:
			focus = replay.Focus{Kind: replay.FocusKinds[i], ID: id}
		}
	}
	return focus, nil
}

func (a *Commands) replay(ctx context.Context, f *replayFlags, file string, focus replay.Focus, between [2]view.Moment) error {
	from, err := a.source(ctx, file, f.bound, between)
	if err != nil {
		return err
	}
	span := from.span
	rules := view.Rules{Task: from.rules.Task(), Node: from.rules.Nodes()}
	gaps := span.Gaps()
	for _, g := range gaps[:min(len(gaps), mostGaps)] {
		fmt.Fprintln(a.Errs, gapText(g))
	}
	if more := len(gaps) - mostGaps; more > 0 {
		fmt.Fprintf(a.Errs, "damaged: something is missing in %s more\n", wording.Plural(more, "place"))
	}
	for i := range from.beside {
		fmt.Fprintf(a.Errs, "damaged: %s\n", wording.Missing(from.beside[i]))
	}
	if span.Len() == 0 {
		return nothing(span, spanName(file))
	}
	session, err := replay.New(span, replay.Config{
		Rules: rules, Margin: from.rules.Margin(), Focus: focus, Marks: from.marks, Partial: from.partial,
		Limited: wording.LimitDuty, Holders: wording.NamedHolders,
		Time: func(text string, near time.Time) (time.Time, error) { return view.ParseTime(text, near.Local()) },
	})
	if err != nil {
		return &term.Fault{Code: term.ExitNotFound, Err: err}
	}
	var found bool
	if len(f.commands) == 0 && !f.JSON() && !f.plain && a.Fullscreen() {
		found, err = Run(ctx, Terminal{In: a.In, Out: term.Unfiltered(a.Out), Colours: term.Colourful(a.Out)}, session, spanName(file), greeting(span))
	} else {
		found, err = a.play(ctx, session, span, f)
	}
	if from.incident != nil {
		err = errors.Join(err, a.keepNotes(file, from, session.Marks()))
	}
	switch {
	case err != nil:
		return err
	case len(span.Gaps()) > 0:
		return term.ExitWith(replayDamaged)
	case !found:
		return term.ExitWith(replayNone)
	}
	return nil
}

// source is what a session steps through.
type source struct {
	span    *replay.Span
	rules   connect.Rules // those in force where it comes from
	marks   []replay.Mark
	partial string // why promises cannot be checked against it; "" if they can
	// incident is the incident file that it comes from; nil for none.
	incident *incident.File
	beside   []incident.Missing // parts of it other than facts that are damaged
}

// logSource reads a span of the log, and all before it.
func (a *Commands) logSource(ctx context.Context, between [2]view.Moment) (from source, err error) {
	err = a.live(ctx, between[1], func(rules connect.Rules, lacks events.Import) func(*events.Record) error {
		from.rules = rules
		if a.Inside.Partial() {
			from.partial = partialFile
		}
		from.span = replay.NewSpan(1)
		from.span.Imported(lacks)
		return func(r *events.Record) error { return from.span.Add(r, between[0].Begun(r)) }
	})
	return from, err
}

// live passes the records of the log up to a moment to what begin returns, which is told by which rules
// things are judged there, and what the log lacks.
func (a *Commands) live(ctx context.Context, until view.Moment, begin func(connect.Rules, events.Import) func(*events.Record) error) error {
	cl, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer cl.Close()
	rules, err := a.InForce(ctx, cl)
	if err != nil {
		return err
	}
	to := view.Point{}
	if until != (view.Moment{}) {
		if to, err = a.PointAt(ctx, cl, "--until", until); err != nil {
			return err
		}
	}
	lacks, err := cl.Import(ctx)
	if err != nil {
		return err
	}
	return a.Span(ctx, cl, 1, to.Seq, begin(rules, lacks))
}

func gapText(g replay.Gap) string {
	where := fmt.Sprintf("between #%d and #%d", g.After, g.Before)
	switch {
	case g.After == 0 && g.Before == 0:
		where = "everywhere"
	case g.After == 0:
		where = fmt.Sprintf("before #%d", g.Before)
	case g.Before == 0:
		where = fmt.Sprintf("after #%d", g.After)
	}
	return "damaged: something is missing " + where + ": " + term.Printable(g.Why)
}

func spanName(file string) string {
	if file == "" {
		return "the log"
	}
	return filepath.Base(file)
}

// greeting describes what a session steps through.
func greeting(span *replay.Span) string {
	text := fmt.Sprintf("#%d to #%d, %s; ? lists the commands", span.From(), span.To(), wording.Plural(span.Len(), "message"))
	if gaps := span.Gaps(); len(gaps) > 0 {
		text += "; " + gapText(gaps[0])
	}
	return text
}

// play performs the commands, and tells whether the last search succeeded.
func (a *Commands) play(ctx context.Context, x *replay.Session, span *replay.Span, f *replayFlags) (found bool, err error) {
	found = true
	p := replayPrinter{a: a, asJSON: f.JSON(), person: len(f.commands) == 0 && term.Terminal(a.In)}
	do := func(line string) (over bool, err error) {
		for _, command := range replay.Split(line) {
			answer, err := x.Do(ctx, command)
			switch {
			case ctx.Err() != nil:
				return true, ctx.Err()
			case err != nil && p.person:
				fmt.Fprintln(a.Errs, term.Printable(err.Error()))
				return false, nil
			case err != nil:
				return true, &term.Fault{Code: term.ExitUsage, Err: fmt.Errorf("%s: %w", command, err)}
			case answer.Quit:
				return true, nil
			}
			if answer.Frame != nil {
				found = !answer.None
			}
			if err := p.print(answer); err != nil {
				return true, err
			}
		}
		return false, nil
	}
	for _, line := range f.commands {
		if over, err := do(line); over || err != nil {
			return found, err
		}
	}
	if len(f.commands) > 0 {
		return found, nil
	}
	if p.person {
		fmt.Fprintln(a.Out, greeting(span))
	}
	lines := bufio.NewScanner(a.In)
	for p.prompt(x); lines.Scan(); p.prompt(x) {
		if over, err := do(lines.Text()); over || err != nil {
			return found, err
		}
	}
	return found, lines.Err()
}

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
