package history

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"millrace/events"
	"millrace/events/jet"
	"millrace/history/incident"
	"millrace/history/verify"
	"millrace/internal/cli/connect"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
)

// Exit codes of verify are those of monitoring plug-ins, which may run it.
const (
	verifyOK       = 0
	verifyWarning  = 1
	verifyCritical = 2
	verifyUnknown  = 3
)

var verifyWords = [...]string{verifyOK: "OK", verifyWarning: "WARNING", verifyCritical: "CRITICAL", verifyUnknown: "UNKNOWN"}

// verifyFlags are the flags of `millrace verify`.
type verifyFlags struct {
	settings.Output
	from, to     uint64
	file         string
	archive      string
	settled      bool
	acknowledged string
	now          string
	rules        []string
}

// certificate is what verify prints as JSON.
type certificate struct {
	Status string `json:"status"`
	// Summary is the line for a monitoring system.
	Summary string `json:"summary"`
	// Archive is what was found of the archive; nil without one.
	Archive *proof `json:"archive,omitempty"`
	*verify.Report
}

// VerifyCommand is millrace verify.
func (a *Commands) VerifyCommand() *cobra.Command {
	var f verifyFlags
	c := &cobra.Command{
		Use: "verify", Aliases: []string{"check"},
		Short: "Check whether the log keeps the promises of Millrace",
		Long: `Reads the log, a range of it, or an export ("millrace events export"), and checks
the promises I-1 to I-11. docs/verify.md says what each of them means for a log.
It changes nothing. The first line and the exit code are those of a monitoring
plug-in:

  0  OK        every promise that was checked is kept
  1  WARNING   kept, but the log holds messages that this version does not
               understand, or times that go back, or no millrace server answers
               for the read model
  2  CRITICAL  a promise is broken
  3  UNKNOWN   it could not be checked: no server, no such file, a wrong flag

Deadlines of a live log are judged by the settings of its server; without one, and in
a file, by those of this command ("millrace config"). They are judged at the present
time; in a file, or up to --to, at the time of its last message.`,
		Example: `  millrace verify
  millrace verify --settled --acknowledged ids.txt
  millrace events export > log.jsonl
  millrace verify --file log.jsonl --rule I-3,I-5 -o json`,
		Args: func(c *cobra.Command, args []string) error {
			if err := settings.Takes(0, 0, "")(c, args); err != nil {
				return a.unknown(&f, err)
			}
			return nil
		},
	}
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return a.unknown(&f, settings.FlagError(c, err)) })
	fs := c.Flags()
	fs.Uint64Var(&f.from, "from", 0, "begin at this `sequence`; nothing is expected of what came before")
	fs.Uint64Var(&f.to, "to", 0, "end at this `sequence`")
	fs.StringVar(&f.file, "file", "", "check this export `file`, - for stdin, instead of the log")
	fs.StringVar(&f.archive, archiveFlag, "", "check this `archive`, too: its segments, and the promises from its first one on; a folder, nats or nats:BUCKET")
	c.MarkFlagsMutuallyExclusive("file", archiveFlag)
	fs.BoolVar(&f.settled, "settled", false, "all has come to rest: a task without an end is a broken promise")
	fs.StringVar(&f.acknowledged, "acknowledged", "", "`file` of task ids, one in a line, that must be in the log")
	fs.StringVar(&f.now, "now", "", "judge deadlines at this `time`")
	fs.StringSliceVar(&f.rules, "rule", nil, "only these `rules`, with commas: I-1 to I-11")
	f.Flags(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		ctx, stop := context.WithCancel(c.Context())
		defer stop()
		go func() { _ = settings.Ease(ctx, 0, settings.AtOnce) }() // it ends with ctx
		cert, err := a.verify(c, &f)
		if err != nil {
			return a.unknown(&f, err)
		}
		return a.printCertificate(cert, f.JSON())
	}
	return c
}

// unknown reports that nothing could be checked: in the line for a monitoring system, which is on
// stdout, or in JSON there and in words on stderr.
func (a *Commands) unknown(f *verifyFlags, err error) error {
	why := term.FaultOf(err)
	if why.Err == nil {
		why = &term.Fault{Err: errors.New("interrupted")}
	}
	said := why.Err
	// Figures follow a |.
	summary := verifyWords[verifyUnknown] + ": " + strings.ReplaceAll(term.Printable(why.Err.Error()), "|", "/")
	if f.JSON() {
		_ = a.WriteJSON(certificate{Status: verifyWords[verifyUnknown], Summary: summary})
	} else {
		fmt.Fprintln(a.Out, summary)
		said = nil
	}
	return &term.Fault{Code: verifyUnknown, Err: said, Hint: why.Hint}
}

func (a *Commands) verify(c *cobra.Command, f *verifyFlags) (*certificate, error) {
	if a.Inside != nil && f.file == "" {
		return nil, ofSpan()
	}
	cfg := verify.Config{From: f.from, Settled: f.settled}
	for _, name := range f.rules {
		rule, err := verify.ParseRule(strings.TrimSpace(name))
		if err != nil {
			return nil, term.Misuse(c, "--rule: %w", err)
		}
		cfg.Rules = append(cfg.Rules, rule)
	}
	if f.to > 0 && f.to < f.from {
		return nil, term.Misuse(c, "--to %d is before --from %d", f.to, f.from)
	}
	var now time.Time
	var err error
	if f.now != "" {
		if now, err = view.ParsePast(f.now, a.Now()); err != nil {
			return nil, term.Misuse(c, "--now: %w", err)
		}
	}
	if cfg.Acknowledged, err = readAcknowledged(f.acknowledged); err != nil {
		return nil, err
	}
	switch {
	case f.file != "":
		return a.verifyFile(f, cfg, now)
	case f.archive != "":
		return a.verifyPast(c.Context(), f, cfg, now)
	}
	return a.verifyLive(c.Context(), f, cfg, now)
}

// rulesOf copies the bounds from the settings.
func rulesOf(s *settings.Values, cfg *verify.Config) {
	cfg.Settings = s.Task()
	cfg.Margin = s.Margin()
}

// ofSpan is why an incident file is not verified.
func ofSpan() error {
	return &term.Fault{Code: term.ExitRefused, Err: errors.New("an incident file holds only what lived in its span: what was left out would count as broken")}
}

func (a *Commands) verifyFile(f *verifyFlags, cfg verify.Config, now time.Time) (*certificate, error) {
	s, _, err := a.LoadSettings(nil, settings.Prod)
	if err != nil {
		return nil, err
	}
	rulesOf(&s, &cfg)
	in := a.In
	if f.file != "-" {
		file, err := os.Open(f.file)
		if err != nil {
			return nil, &term.Fault{Code: term.ExitNotFound, Err: err, Hint: term.Hint("`millrace events export > FILE` writes an export")}
		}
		defer file.Close()
		in = file
	}
	text := bufio.NewReaderSize(in, 1<<16)
	if beginning, _ := text.Peek(1 << 16); incident.Is(beginning) {
		return nil, ofSpan()
	}
	r, err := events.NewExportReader(text)
	if err != nil {
		return nil, err
	}
	first, err := r.Next()
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	begins := r.Header().From
	if r.Header().Export == 0 {
		begins = first.Seq
	}
	cfg.From, cfg.Import = max(cfg.From, begins), r.Header().Import
	v := verify.New(cfg)
	for ; err == nil; first, err = r.Next() {
		if first.Seq < cfg.From {
			continue
		}
		if f.to > 0 && first.Seq > f.to {
			break
		}
		if err := v.Add(&first); err != nil {
			return nil, err
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return f.certify(v.Report(now))
}

// certify is the certificate of a report. A file or a range without messages is not called OK: that
// says nothing of what somebody asked about. A log without any is one that has just begun.
func (f *verifyFlags) certify(r *verify.Report) (*certificate, error) {
	span := f.from > 1 || f.to > 0
	if r.Last > 0 || f.file == "" && !span {
		return certify(r), nil
	}
	what := "the log"
	switch f.file {
	case "":
	case "-":
		what = "stdin"
	default:
		what = f.file
	}
	if span {
		what += " from --from to --to"
	}
	return nil, &term.Fault{Code: term.ExitNotFound, Err: fmt.Errorf("there are no messages in %s", what)}
}

func (a *Commands) verifyLive(ctx context.Context, f *verifyFlags, cfg verify.Config, now time.Time) (*certificate, error) {
	cl, err := a.Connect(ctx)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	rules, err := a.InForce(ctx, cl)
	if err != nil {
		return nil, err
	}
	rulesOf(&rules.Values, &cfg)
	if cfg.Import, err = cl.Import(ctx); err != nil {
		return nil, err
	}
	switch {
	case f.now != "":
		if now, err = view.ParsePast(f.now, a.Now()); err != nil { // once more, by the log's time
			return nil, err
		}
	case f.to == 0:
		now = a.Now() // before the log's end is read: everything due by then is in it
		cfg.Settings = rules.Present()
	}
	v := verify.New(cfg)
	if err := a.Span(ctx, cl, f.from, f.to, v.Add); err != nil {
		return nil, err
	}
	why, err := a.compareRows(ctx, cl, f, cfg.Rules, v)
	if err != nil {
		return nil, err
	}
	if why != "" {
		v.CouldNot(verify.ReadModel, why)
	}
	return f.certify(v.Report(now))
}

// compareRows gives the copies of definitions and the rows of the read model to a verifier. If that
// was not possible only because of the read model, it returns why.
func (a *Commands) compareRows(ctx context.Context, c *client.Client, f *verifyFlags, rules []verify.Rule, v *verify.Verifier) (string, error) {
	alone := false // whether this rule was requested by name
	if len(rules) > 0 {
		for _, r := range rules {
			alone = alone || r == verify.ReadModel
		}
		if !alone {
			return "", nil
		}
	}
	if f.to > 0 {
		v.Nothing(verify.ReadModel, "it cannot be asked how it was at --to")
		return "", nil
	}
	if c.Role() != "" {
		v.Nothing(verify.ReadModel, "copies of definitions are compared for the role operator")
		return "", nil
	}
	copies, err := c.Store().Copies(ctx)
	if err != nil {
		return "", err
	}
	for key, is := range copies {
		v.Copy(key, is)
	}
	v.CopiesEnd()
	err = a.rows(ctx, c, v)
	if err == nil {
		var begins uint64
		begins, err = c.Begins(ctx)
		v.Begins(begins)
	}
	switch {
	case err == nil:
		v.RowsEnd()
		return "", nil
	case alone || !errors.Is(err, jet.ErrNoService):
		return "", fmt.Errorf("read model: %w", err)
	}
	return "no millrace server answers for the read model", nil
}

// rowsAtOnce is how many rows one request asks for; rows that do not fit come with the next answer.
const rowsAtOnce = 500

// rows gives all rows to a verifier. It requests them from both ends of the list concurrently,
// until the two meet: the server makes one page while another is on its way, and a third is
// compared.
func (a *Commands) rows(ctx context.Context, c *client.Client, v *verify.Verifier) error {
	ctx, stop := context.WithCancel(ctx)
	pages := make(chan rowPage)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer stop()
	for _, oldest := range []bool{true, false} {
		asking.Go(func() {
			r := client.RowsRequest{Limit: rowsAtOnce, OldestFirst: oldest, AtLeast: v.Last()}
			for more := true; more; {
				waiting, cancel := context.WithTimeout(ctx, max(a.Conn.Timeout, connect.CatchUp))
				page, err := c.Rows(waiting, r)
				cancel()
				r.After = page.Next
				more = err == nil && page.Next != ""
				select {
				case pages <- rowPage{page.Tasks, oldest, more, err}:
				case <-ctx.Done():
					return
				}
			}
		})
	}
	var low, high task.ID // how far each of the two has come
	for {
		page := <-pages
		if page.err != nil {
			return page.err
		}
		for i := range page.tasks {
			v.Row(&page.tasks[i])
		}
		if !page.more {
			return nil
		}
		end := page.tasks[len(page.tasks)-1].ID
		if page.oldest {
			low = end
		} else {
			high = end
		}
		if high != "" && low >= high {
			return nil
		}
	}
}

// rowPage is a page of the read model.
type rowPage struct {
	tasks  []task.Task
	oldest bool // one of the pages that begin with the oldest task
	more   bool
	err    error
}

// readAcknowledged reads ids, one per line; it skips lines that are empty or begin with #.
func readAcknowledged(path string) ([]task.ID, error) {
	if path == "" {
		return nil, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, &term.Fault{Code: term.ExitNotFound, Err: fmt.Errorf("--acknowledged: %w", err)}
	}
	defer file.Close()
	ids := []task.ID{}
	lines := bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		id, err := task.ParseID(line)
		if err != nil {
			return nil, &term.Fault{Code: term.ExitUsage, Err: fmt.Errorf("--acknowledged: line %d of %s: %w", n, path, err)}
		}
		ids = append(ids, id)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("--acknowledged: %s: %w", path, err)
	}
	return ids, nil
}
