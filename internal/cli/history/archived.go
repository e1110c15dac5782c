package history

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/events"
	"millrace/events/jet/embed"
	"millrace/history/incident"
	"millrace/history/verify"
	"millrace/internal/cli/connect"
	"millrace/internal/cli/serve"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/projections/view"
)

// past is the whole log: what an archive has of it and, behind that, what the server has.
type past struct {
	*opened
	*incident.Archive
	// live tells that the log of the server follows.
	live bool
	// lacks says what the log itself lacks.
	lacks events.Import
}

// past opens an archive, and finds out whether the log of the server is the one that it belongs to.
func (a *Commands) past(ctx context.Context, name string) (*past, error) {
	is, err := a.archive(ctx, name, true)
	if err != nil {
		return nil, err
	}
	p := &past{opened: is}
	p.Archive, p.live, err = is.read(ctx)
	if err != nil {
		is.close()
		return nil, err
	}
	if n := len(p.Segments); n > 0 {
		p.lacks = p.Segments[n-1].Import
	}
	_, last, _ := p.Span()
	switch {
	case p.live:
		first, found, err := is.client.First(ctx)
		if err != nil {
			is.close()
			return nil, err
		}
		if found && first.Seq > last+1 {
			p.Faults = append(p.Faults, incident.Fault{First: last + 1, Last: first.Seq - 1, Why: "neither the archive nor the log has it"})
		}
	case is.client != nil:
		a.Note("the log of the server does not know this archive, so the answer ends with the archive, at #%d", last)
	default:
		a.Note("no server answers, so the answer ends with the archive, at #%d", last)
	}
	return p, nil
}

// facts are all records, in their order.
func (p *past) facts(ctx context.Context, a *Commands) iter.Seq2[events.Record, error] {
	return func(yield func(events.Record, error) bool) {
		for r, err := range p.Records(ctx) {
			if !yield(r, err) || err != nil {
				return
			}
		}
		if !p.live {
			return
		}
		_, last, _ := p.Span()
		enough := errors.New("enough")
		err := a.App.Span(ctx, p.client, last+1, 0, func(r *events.Record) error {
			if !yield(*r, nil) {
				return enough
			}
			return nil
		})
		if err != nil && !errors.Is(err, enough) {
			yield(events.Record{}, err)
		}
	}
}

// archivedCommands read the log, beside those that know a moment of the past.
var archivedCommands = []string{"events tail", "events show", "events export", "replay", "whatif", "incident export"}

// archiveFlag is the name of the flag.
const archiveFlag = "archive"

// Archived adds the flag --archive for the reading commands below root: one then reads the segments of an
// archive and the log of the server as one log. args is the command line.
func (a *IncidentCommands) Archived(root *cobra.Command, args []string) {
	var name string
	const usage = "also read what this `archive` has of the past: a folder, nats or nats:BUCKET"
	root.PersistentFlags().StringVar(&name, archiveFlag, "", usage+"; for commands that only read")
	each(root, func(c *cobra.Command) {
		own := c.RunE
		if own == nil || c.Flags().Lookup(archiveFlag) != nil || c.DisableFlagParsing {
			return
		}
		_, path, _ := strings.Cut(c.CommandPath(), " ")
		at := c.Flags().Lookup("at")
		reads := slices.Contains(archivedCommands, path) || at != nil && at.Usage == connect.AtUsage
		if reads { // its help has the flag
			c.Flags().StringVar(&name, archiveFlag, "", usage)
		}
		c.RunE = func(c *cobra.Command, typed []string) error {
			switch {
			case name == "":
				return own(c, typed)
			case !reads:
				return term.Misuse(c, "--archive is for commands that read the past, and %s does not", c.CommandPath())
			}
			return a.lookFurther(c.Context(), name, withoutFlag(args))
		}
	})
}

// each passes the commands of a tree.
func each(c *cobra.Command, do func(*cobra.Command)) {
	do(c)
	for _, below := range c.Commands() {
		each(below, do)
	}
}

// withoutFlag is a command line without the flag --archive.
func withoutFlag(args []string) (all []string) {
	for i := 0; i < len(args); i++ {
		switch word := args[i]; {
		case word == "--":
			return append(all, args[i:]...)
		case word == "--"+archiveFlag:
			i++
		case !strings.HasPrefix(word, "--"+archiveFlag+"="):
			all = append(all, word)
		}
	}
	return all
}

// lookFurther runs a command on an archive and the log behind it.
func (a *IncidentCommands) lookFurther(ctx context.Context, name string, args []string) error {
	if strings.HasPrefix(strings.Join(args, " "), "task logs") {
		a.Note("an archive has events, and no output")
	}
	code := 0
	return a.further(ctx, name, "", &code, func(ctx context.Context, inside *connect.Inside) error {
		code = a.run(ctx, inside, args, a.In, a.Out, a.Errs)
		return nil
	})
}

// archiveOpen is millrace archive open.
func (a *Commands) archiveOpen() *cobra.Command {
	address := "127.0.0.1:0"
	c := &cobra.Command{
		Use: "open [ARCHIVE]", Aliases: []string{"pages"}, Short: "Serve pages of an archive and the log behind it, as it is now",
		Long: `Lays the segments of an archive and the log of the server out as one log, in a temporary directory, and serves pages
of that until Ctrl-C. It prints a link for a browser. The pages change nothing, and what comes into the log meanwhile
is not on them.`,
		Args: settings.Takes(0, 1, "archive"),
	}
	c.Flags().StringVar(&address, "http", address, "`address` of the pages, of loopback, with port 0 for a free one")
	c.RunE = func(c *cobra.Command, args []string) error {
		return (&IncidentCommands{App: a.App}).further(c.Context(), strings.Join(args, ""), address, new(int), func(ctx context.Context, _ *connect.Inside) error {
			<-ctx.Done()
			return nil
		})
	}
	return c
}

// further lays out an archive and the log behind it, and calls look with that. At an address for HTTP
// there are pages of it. Code is the exit code of what look does.
func (a *IncidentCommands) further(ctx context.Context, name, http string, code *int, look func(context.Context, *connect.Inside) error) error {
	p, err := Of(a.App).past(ctx, name)
	if err != nil {
		return err
	}
	defer p.close()
	lay := func(dir string, s *settings.Values) (from, to view.Point, err error) {
		s.HTTP.Address = http
		layout := s.Layout()
		layout.Import = p.lacks
		facts := func(yield func(events.Record, error) bool) {
			for r, err := range p.facts(ctx, Of(a.App)) {
				if err == nil && from.Seq == 0 {
					from = view.Point{Seq: r.Seq, At: r.Stored}
				}
				if !yield(r, err) {
					return
				}
			}
		}
		to, err = serve.Lay(dir, layout, a.Now(), facts, func(func(embed.Message, error) bool) {})
		return from, to, err
	}
	var judging incident.File
	if p.live {
		rules, err := a.InForce(ctx, p.client)
		if err != nil {
			return err
		}
		judging.Manifest.Settings = rules.Judging()
	}
	err = a.inside(ctx, name, lay, &judging, func(ctx context.Context, inside *connect.Inside) error {
		inside.Archive = true
		return look(ctx, inside)
	})
	if faults := Of(a.App).sayFaults(p.Archive); err == nil && *code == term.ExitOK {
		return faults // the answer may lack what the archive lacks
	}
	return errors.Join(err, term.ExitWith(*code))
}

// verifyPast checks an archive, and the promises over it and the log behind it. What lies before a part
// that is missing is not judged: whatever follows would count as broken.
func (a *Commands) verifyPast(ctx context.Context, f *verifyFlags, cfg verify.Config, now time.Time) (*certificate, error) {
	p, err := a.past(ctx, f.archive)
	if err != nil {
		return nil, err
	}
	defer p.close()
	own, err := a.Settings()
	rules := connect.Rules{Values: own}
	if err == nil && p.live {
		rules, err = a.InForce(ctx, p.client)
	}
	if err != nil {
		return nil, err
	}
	rulesOf(&rules.Values, &cfg)
	if p.live && f.to == 0 && f.now == "" {
		now, cfg.Settings = a.Now(), rules.Present()
	}
	first, _, _ := p.Span()
	cfg.From, cfg.Import = max(cfg.From, first), p.lacks
	for _, fault := range p.Faults {
		cfg.From = max(cfg.From, fault.Last+1)
	}
	v := verify.New(cfg)
	for r, err := range p.facts(ctx, a) {
		if err == nil && f.to > 0 && r.Seq > f.to {
			break
		}
		if err == nil && r.Seq >= cfg.From {
			err = v.Add(&r)
		}
		if err != nil {
			return nil, err
		}
	}
	v.Nothing(verify.ReadModel, "an archive has none")
	cert, err := f.certify(v.Report(now))
	if err != nil {
		return nil, err
	}
	if cert.Archive = proofOf(p.Archive); len(p.Faults) > 0 {
		_, rest, _ := strings.Cut(cert.Summary, ": ")
		cert.Status = verifyWords[verifyCritical]
		cert.Summary = fmt.Sprintf("%s: %s of the archive damaged or missing, %s", cert.Status, wording.Plural(len(p.Faults), "part"), rest)
	}
	return cert, nil
}
