package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"millrace/events"
	"millrace/events/jet"
	"millrace/events/jet/definitions"
	"millrace/events/jet/streams"
	"millrace/history/verify"
	"millrace/internal/cli/connect"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/service/client"
	"millrace/service/inspect"
	"millrace/task/node"
)

// Statuses of a check.
const (
	checkOK     = "ok"
	checkNote   = "note" // worth knowing, and no reason to wait
	checkUnsafe = "unsafe"
)

// upgradeCheck is what was found out about one thing.
type upgradeCheck struct {
	Check  string   `json:"check"`
	Status string   `json:"status"`
	Found  []string `json:"found,omitempty"`
	// Why is what was found first that is unsafe, and Do what to do about it.
	Why string `json:"why,omitempty"`
	Do  string `json:"do,omitempty"`
}

// found adds what was found. do says what to do about it if it is unsafe.
func (c *upgradeCheck) found(status, do string, all ...string) {
	for _, found := range all {
		c.Found = append(c.Found, found)
		if status == checkUnsafe && c.Status != checkUnsafe {
			c.Status, c.Why, c.Do = status, found, do
		} else if c.Status == checkOK {
			c.Status = status
		}
	}
}

// upgradeReport is what `millrace upgrade check` prints.
type upgradeReport struct {
	Safe    bool            `json:"safe"`
	Summary string          `json:"summary"`
	Version string          `json:"version"` // of this program
	Checks  []*upgradeCheck `json:"checks"`

	seen string // what was read, in words
}

func (r *upgradeReport) check(name string) *upgradeCheck {
	c := &upgradeCheck{Check: name, Status: checkOK}
	r.Checks = append(r.Checks, c)
	return c
}

// conclude says in a sentence what was found.
func (r *upgradeReport) conclude() {
	r.Safe, r.Summary = true, "Safe: this program reads "+r.seen+" without loss and finds every promise kept. Replace the servers first, then workers and clients."
	for _, c := range slices.Backward(r.Checks) {
		if c.Status == checkUnsafe {
			r.Safe, r.Summary = false, fmt.Sprintf("Not safe: %s. %s.", c.Why, c.Do)
		}
	}
}

// doNewer is what to do about what this program does not know.
const doNewer = "Take a program that is not older than what wrote this"

// Upgrade is millrace upgrade.
func (a *Commands) Upgrade() *cobra.Command {
	c := settings.Noun(&cobra.Command{Use: "upgrade", Short: "See whether another version of Millrace can take over"})
	c.AddCommand(a.upgradeCheck())
	return c
}

func (a *Commands) upgradeCheck() *cobra.Command {
	var o settings.Output
	var bound inspect.Bound
	var archives []string
	c := &cobra.Command{
		Use:   "check",
		Short: "See whether this program can take over from the one that runs",
		Long: `Run it with the new program while the old one works. It reads what is there as the new
program does, and changes nothing:

  settings      does it take its own and those of the server that runs?
  forms         is each event of a type and a version that it knows, with no other fields?
  promises      are all kept ("millrace verify"), but I-8: servers make their read models again
  definitions   does it take the jobs, schedules, calendars, bundles and tokens?
  streams       are they, and the consumers of queues, as it makes them?

It lists the versions of servers and workers, too. The first line says whether it is
safe to upgrade, and what to do if not. Ends with 0 if it is, and with 1 if not.`,
		Example: `  ./new/millrace upgrade check
  ./new/millrace upgrade check --archive crash.mri --archive log.jsonl -o json`,
		Args: settings.Takes(0, 0, ""),
	}
	c.Flags().StringArrayVar(&archives, "archive", nil, "read this export, incident `file` or archive, too; may be repeated (that of the setting archive is read anyway)")
	bound.Flag(c.Flags())
	o.Flags(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if a.Inside != nil {
			return ofSpan()
		}
		r := &upgradeReport{Version: wording.ThisBuild().Version}
		if err := a.checkUpgrade(c.Context(), r, archives, bound); err != nil {
			return err
		}
		r.conclude()
		if err := a.printUpgrade(r, o.JSON()); err != nil || r.Safe {
			return err
		}
		return term.ExitWith(term.ExitError)
	}
	return c
}

func (a *Commands) printUpgrade(r *upgradeReport, asJSON bool) error {
	if asJSON {
		return a.WriteJSON(r)
	}
	t := term.Table{Title: r.Summary, Header: []string{"CHECK", "STATUS", "FOUND"}}
	colours := map[string]term.Colour{checkOK: term.Green, checkNote: term.Yellow, checkUnsafe: term.Red}
	for _, c := range r.Checks {
		t.Add(term.Plain(c.Check), term.Tinted(c.Status, colours[c.Status]), term.Plain(term.Printable(strings.Join(c.Found, "; "))))
	}
	return a.Print(t)
}

// checkUpgrade makes all checks, or the first one if that says that the others cannot be made.
func (a *Commands) checkUpgrade(ctx context.Context, r *upgradeReport, archives []string, bound inspect.Bound) error {
	cl, err := a.Connect(ctx)
	if errors.Is(err, streams.ErrOldLog) {
		r.check("streams").found(checkUnsafe, "Move it so (docs/upgrade.md)", streams.ErrOldLog.Error())
		return nil
	}
	if err != nil {
		return err
	}
	defer cl.Close()
	of := r.check("settings")
	rules, err := a.InForce(ctx, cl)
	if err != nil { // deadlines are judged by them
		of.found(checkUnsafe, "Correct it", err.Error())
		return nil
	}
	report, err := a.checkLog(ctx, cl, r, &rules)
	if err != nil {
		return err
	}
	r.seen = fmt.Sprintf("%s to #%d", wording.Plural(report.Facts, "event"), report.Last)
	if err := checkDefinitions(ctx, cl, r.check("definitions")); err != nil {
		return err
	}
	if err := a.checkProcesses(ctx, cl, r.check("versions"), r.check("streams")); err != nil {
		return err
	}
	if rules.Archive != "" && !slices.Contains(archives, rules.Archive) {
		archives = append(archives, rules.Archive)
	}
	for _, name := range archives {
		info, err := os.Stat(name)
		where, _ := settings.ParseArchive(name) // a wrong name is none of a file either
		_, stored := settings.ArchiveBucket(where)
		if stored || name == rules.Archive || err == nil && info.IsDir() {
			err = a.checkSegments(ctx, r.check(name), name)
		} else {
			err = checkArchive(r.check(name), name, bound)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkSegments reads an archive as this program does.
func (a *Commands) checkSegments(ctx context.Context, c *upgradeCheck, name string) error {
	is, err := a.archive(ctx, name, true)
	if err != nil {
		return err
	}
	defer is.close()
	found, _, err := is.read(ctx)
	if f := term.FaultOf(err); f != nil && f.Code == term.ExitNotFound {
		c.found(checkNote, "", err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	for _, fault := range found.Faults {
		c.found(checkUnsafe, "Look at it with `millrace archive verify`", faultText(fault))
	}
	read := forms{}
	for r, err := range found.Records(ctx) {
		if err != nil {
			return err
		}
		read.add(&r)
	}
	read.judge(c)
	c.found(checkOK, "", proofOf(found).String())
	return nil
}

// checkLog reads the log as this program does.
func (a *Commands) checkLog(ctx context.Context, cl *client.Client, r *upgradeReport, rules *connect.Rules) (report *verify.Report, err error) {
	cfg := verify.Config{Rules: slices.DeleteFunc(verify.Rules(), func(of verify.Rule) bool { return of == verify.ReadModel })}
	rulesOf(&rules.Values, &cfg)
	cfg.Settings = rules.Present()
	if cfg.Import, err = cl.Import(ctx); err != nil {
		return nil, err
	}
	now := a.Now()
	read, v := forms{}, verify.New(cfg)
	err = a.Span(ctx, cl, 0, 0, func(r *events.Record) error {
		read.add(r)
		return v.Add(r)
	})
	if err != nil {
		return nil, err
	}
	report = v.Report(now)
	of := r.check("forms")
	read.judge(of)
	if report.Poison > 0 {
		of.found(checkUnsafe, "If `millrace dlq ls` of the program that runs has all of them, dismiss them; else stay with it",
			fmt.Sprintf("%s cannot be read (%s)", wording.Plural(report.Poison, "message"), wording.Seqs(report.PoisonSeqs, report.Poison)))
	}
	cert := certify(report)
	summary, _, _ := strings.Cut(cert.Summary, " |")
	status := map[string]string{verifyWords[verifyOK]: checkOK, verifyWords[verifyWarning]: checkNote}[cert.Status]
	r.check("promises").found(cmp.Or(status, checkUnsafe), "Look at it with `millrace verify`", summary)
	return report, nil
}

// forms counts the events that this program does not know, or not whole, by what it does not know.
type forms map[string]int

func (f forms) add(r *events.Record) {
	about := fmt.Sprintf("of the type %s", r.Fact.Type)
	switch {
	case errors.Is(r.Err, events.ErrLater):
		f["of a later version of the form"]++
	case !r.IsFact(), r.Err != nil:
	case r.Fact.Event == nil:
		f[about+", which this program does not know"]++
	default:
		names, err := events.Dropped(r)
		if err != nil {
			f[about+", which this program would not write: "+err.Error()]++
		}
		for _, name := range names {
			f[about+" with the field "+name+", which this program does not know"]++
		}
	}
}

func (f forms) judge(c *upgradeCheck) {
	for _, words := range slices.Sorted(maps.Keys(f)) {
		c.found(checkUnsafe, doNewer, wording.Plural(f[words], "event")+" "+words)
	}
}

// checkDefinitions reads the present definitions as this program does.
func checkDefinitions(ctx context.Context, cl *client.Client, c *upgradeCheck) error {
	all, err := cl.Store().Definitions(ctx, "")
	_, jobs := definitions.JobsIn(all)
	_, schedules := definitions.SchedulesIn(all)
	_, calendars := definitions.CalendarsIn(all)
	_, bundles := definitions.BundlesIn(all)
	_, tokens := definitions.TokensIn(all)
	for _, wrong := range []error{jobs, schedules, calendars, bundles, tokens} {
		if wrong != nil {
			c.found(checkUnsafe, "Apply or remove it with the program that runs", wrong.Error())
		}
	}
	return err
}

// checkProcesses looks at servers and workers, and at the streams and consumers that they share.
func (a *Commands) checkProcesses(ctx context.Context, cl *client.Client, versions, shared *upgradeCheck) error {
	t, err := a.Target()
	if err != nil {
		return err
	}
	servers, err := jet.Versions(t.Options)
	if err != nil {
		return err
	}
	nodes, err := cl.Nodes(ctx, client.NodeListRequest{Bare: true})
	var queues client.QueuePage
	if err == nil {
		queues, err = cl.Queues(ctx, client.QueueListRequest{})
	}
	if errors.Is(err, jet.ErrNoService) {
		versions.found(checkNote, "", "no millrace server answers, so workers and queues are not known")
	} else if err != nil {
		return err
	}
	count := map[string]int{}
	for _, v := range servers {
		count["server of v"+v]++
	}
	for i := range nodes.Nodes {
		if n := &nodes.Nodes[i]; n.State != node.Offline && n.State != node.Retired {
			count["worker of "+cmp.Or(n.Version, "no version")]++
		}
	}
	for _, of := range slices.Sorted(maps.Keys(count)) {
		versions.found(checkOK, "", fmt.Sprintf("%d %s", count[of], of))
	}
	var names []string
	for i := range queues.Queues {
		names = append(names, queues.Queues[i].Name)
	}
	lacks, foreign, err := cl.Store().Unlike(ctx, names)
	shared.found(checkUnsafe, "Change that with `nats stream edit`, or move the log (docs/upgrade.md)", lacks...)
	shared.found(checkUnsafe, "Stop all workers before the first one of this program starts", foreign...)
	return err
}

// checkArchive reads an export or an incident file as this program does.
func checkArchive(c *upgradeCheck, name string, bound inspect.Bound) error {
	whether, err := isIncident(name)
	if err != nil {
		return err
	}
	var facts iter.Seq2[events.Record, error]
	if !whether {
		x, err := OpenExport(name, nil)
		if err != nil {
			c.found(checkUnsafe, "Keep a program that reads it", err.Error())
			return nil
		}
		defer x.Close()
		facts = x.Facts()
	} else if f, err := readIncident(name, bound); err == nil {
		facts = f.Facts()
		for _, m := range f.Missing {
			c.found(checkNote, "", "damaged: "+wording.Missing(m))
		}
	} else {
		c.found(checkUnsafe, "Keep a program that reads it", err.Error())
		return nil
	}
	read, all := forms{}, 0
	for r, err := range facts {
		if all++; err != nil {
			c.found(checkNote, "", err.Error())
			continue
		}
		read.add(&r)
	}
	read.judge(c)
	c.found(checkOK, "", wording.Plural(all, "message"))
	return nil
}
