package verb

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/internal/cli/connect"
	"millrace/internal/cli/settings"
	look "millrace/internal/cli/task"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/placement"
	"millrace/task/value"
)

// RunFlags are the flags of `millrace run`.
type RunFlags struct {
	settings.Output
	Params   []string
	ParamsIn string
	Labels   []string
	Queue    string
	delay    settings.Span
	at       string
	timeout  settings.Span
	pending  settings.Span
	assign   settings.Span
	total    settings.Span
	nodes    []string
	noNode   string
	place    placeFlags
	needs    []string
	rule     string
	signal   string
	window   string
	signalBy settings.Span
	retries  int
	id       string
	group    string
	priority int
	fairKey  string
	title    string
	limits   limitFlags

	handler string
	shell   string
	program string
	dir     string
	env     []string
	Files   string
	stdin   settings.Choice
	talks   settings.Choice
	coded   string
	vars    bool
	memory  string
	image   string
	pull    settings.Choice
	mounts  []string
	network string
	runtime settings.Choice

	count  int
	Wait   bool
	Follow bool
}

// Run is millrace run.
func (a *Commands) Run() *cobra.Command {
	var f RunFlags
	c := &cobra.Command{
		Use:     "run [JOB] [flags] [-- COMMAND ARG...]",
		Aliases: []string{"submit"},
		Short:   "Submit a task: of a job, or of a command",
		Long: `Submits a task and prints its id: of a stored job, or of a command after "--",
of a shell line (--shell), of a program that stays alive for the next task (--program),
of a handler that a worker registered (--handler), or of an image (--image).

--wait waits for its end, --follow shows its output meanwhile; both end with the
task's own exit code (see "millrace help exit-codes"). Ctrl-C ends the waiting; the
task goes on. What a command prints is the log of the task, also where others have
written it: a line that asks for something counts only with the key of the attempt,
which "millrace ipc" and the libraries add (docs/ipc.md). With -o json, --follow
prints a line of JSON for each line of output and the task at the end.`,
		Example: `  millrace run hello -p name=World -p times=3
  millrace run --follow -- curl -sS https://example.com
  millrace run backup --at 23:30 --retries 3 --timeout 2h
  millrace run --count 1000 --wait --queue bulk -- /bin/true`,
		DisableFlagsInUseLine: true,
		ValidArgsFunction:     a.CompleteJobs,
	}
	f.TaskFlags(c, "spread")
	fs := c.Flags()
	settings.InGroup(fs, settings.GroupWhen, func() {
		fs.StringArrayVar(&f.needs, "needs", nil, "start it when this task has ended, `ID[:WHEN]`; WHEN is "+strings.Join(job.Whens, ", ")+" (default success; repeat it)")
		fs.StringVar(&f.rule, "needs-rule", "", "how many of --needs must end as they say: "+strings.Join(job.NeedRules, ", ")+" (default all)")
		fs.Var(&f.delay, "delay", "start it so much later: 90s, 2h, 1d")
		fs.StringVar(&f.at, "at", "", "start it at a `time`: 2026-03-01T12:00:00Z, \"2026-03-01 12:00\", or 12:00, today or tomorrow")
	})
	settings.InGroup(fs, settings.GroupFound, func() {
		fs.StringVar(&f.id, "id", "", "task id, a `ULID`; the same submission again makes no second task, a different one is refused")
	})
	fs.IntVar(&f.count, "count", 1, "submit so many equal tasks")
	fs.BoolVar(&f.Wait, "wait", false, "wait for the end")
	fs.BoolVarP(&f.Follow, "follow", "f", false, "show the output until the end")
	f.Flags(c)
	c.SetHelpFunc(a.helpOfJob(c.HelpFunc()))
	c.RunE = func(c *cobra.Command, args []string) error {
		s, err := a.submission(c, &f, args)
		if err != nil {
			return err
		}
		return a.submit(c, s, &f)
	}
	return c
}

// TaskFlags adds the flags that describe a task, for all commands that submit. spread is the name
// of the flag for the label over whose values the tasks are spread.
func (f *RunFlags) TaskFlags(c *cobra.Command, spread string) {
	fs := c.Flags()
	settings.InGroup(fs, settings.GroupWhat, func() {
		fs.StringArrayVarP(&f.Params, "param", "p", nil, "parameter `name=value`, of the type that the job declares; without a declaration JSON if it is valid JSON, else text, also @text (repeat it)")
		fs.StringVar(&f.ParamsIn, "params", "", "parameters as a JSON object or as lines name=value, `text|@file|-`; --param wins over it")
		fs.StringVar(&f.handler, "handler", "", "run the handler of this `name` instead of a job; with --program, one of the program's")
		fs.StringVar(&f.shell, "shell", "", "run this `line` with sh instead of a job")
		fs.StringVar(&f.program, "program", "", "run a handler of the program that this `line` starts, such as \"python3 app.py\"; it stays alive and runs one task after the other")
		fs.StringVar(&f.dir, "dir", "", "working `directory` of the command (default a fresh one)")
		fs.StringArrayVar(&f.env, "env", nil, "environment variable `name=value` of the command (repeat it)")
		fs.StringVar(&f.Files, "files", "", "files for its working directory: a folder such as ./app, which is pushed, or `NAME|NAME@DIGEST`")
		f.stdin.Of = []string{job.StdinNone, job.StdinOpen}
		fs.Var(&f.stdin, "stdin", "standard input of the command: none, or open for messages (default none)")
		f.talks.Of = job.MessageRules
		fs.Var(&f.talks, "messages", "what counts of the command's output without its attempt's key: `rule`, one of "+strings.Join(job.MessageRules, ", ")+" (default "+job.MessagesReports+")")
		fs.StringVar(&f.coded, "encoding", "", "in which the command prints: a `name` such as gbk, latin1 or utf-16 (default utf-8)")
		fs.BoolVar(&f.vars, "params-env", false, "give the command each parameter as a variable, too: P_NAME")
		fs.StringVar(&f.memory, "memory", "", "how much memory the command may hold: `size` such as 512MiB")
		fs.StringVar(&f.image, "image", "", "run the command in a container of this `image`, or the image's own command")
		f.pull.Of = []string{job.PullMissing, job.PullAlways, job.PullNever}
		fs.Var(&f.pull, "pull", "when the worker fetches the image (default "+job.PullMissing+")")
		fs.StringArrayVar(&f.mounts, "mount", nil, "what of the node the container sees, `FROM:TO[:ro]` (repeat it)")
		fs.StringVar(&f.network, "network", "", "`name` of the container's network, such as none or host (default that of its runtime)")
		f.runtime.Of = job.Runtimes
		fs.Var(&f.runtime, "runtime", "which program runs the image (default the first that the node has)")
	})
	settings.InGroup(fs, settings.GroupWhen, func() {
		fs.StringVar(&f.signal, "signal", "", "hold it until the approval of this `name` is given (millrace task approve)")
		fs.StringVar(&f.window, "window", "", "start it only while this `calendar` is open, or none for any time (default that of the job)")
		fs.Var(&f.signalBy, "signal-timeout", "how long it waits for the approval; then it expires; 0 is for ever (default)")
	})
	settings.InGroup(fs, settings.GroupWhere, func() {
		fs.StringVarP(&f.Queue, "queue", "q", "", "`queue` to wait in (default that of the job, or \"default\")")
		fs.IntVar(&f.priority, "priority", 0, fmt.Sprintf("%d to %d, the larger the more urgent (default that of the job, or %d)", placement.MinPriority, placement.MaxPriority, placement.DefaultPriority))
		fs.StringVar(&f.fairKey, "fair-key", "", "key for fairness, a `text` such as a customer: the keys of a queue are served in turn (default that of the job)")
		fs.StringSliceVar(&f.nodes, "node", nil, "only on this `node`, the preferred first (repeat it)")
		fs.StringVar(&f.noNode, "no-node", "", "what to do while no --node takes work: "+strings.Join(job.NoNodes, ", ")+" (default that of the job, or expire)")
		f.place.flags(fs, spread)
	})
	settings.InGroup(fs, settings.GroupLong, func() {
		fs.Var(&f.timeout, "timeout", "how long an attempt may run, 0 for any time ($NATS_TIMEOUT is that of the connection)")
		fs.Var(&f.pending, "pending-timeout", "how long it may wait to be started, 0 for any time")
		fs.Var(&f.assign, "assign-timeout", "how long it may wait for a worker while all that serve its queue are busy, 0 for any time")
		fs.Var(&f.total, "total-timeout", "how long the whole may take, waits and retries included, 0 for any time")
		fs.IntVar(&f.retries, "retries", 0, "how many failed attempts may be followed by another")
	})
	settings.InGroup(fs, settings.GroupLimits, func() { f.limits.flags(c) })
	settings.InGroup(fs, settings.GroupFound, func() {
		fs.StringArrayVarP(&f.Labels, "label", "l", nil, "label of the task, `name=value`, by which lists find it (repeat it; --labels chooses nodes)")
		fs.StringVar(&f.title, "title", "", "what the task is for, a `line` for people")
		fs.StringVar(&f.group, "group", "", "`name` that ties tasks together")
	})
}

// submission turns the command line into a submission.
func (a *Commands) submission(c *cobra.Command, f *RunFlags, args []string) (birth.Submission, error) {
	var s birth.Submission
	refuse := func(err error) (birth.Submission, error) { return s, term.Misuse(c, "%w", err) }
	names, argv, err := settings.SplitCommand(c, args, 1)
	if err != nil {
		return s, err
	}
	if s, err = f.Wanted(c, names[0], argv, a.In); err != nil {
		return refuse(err)
	}
	if f.id != "" {
		if s.ID, err = task.ParseID(f.id); err != nil {
			return refuse(fmt.Errorf("--id: %w", err))
		}
	}
	if s.At, err = f.due(a.Now()); err != nil {
		return refuse(err)
	}
	if s.Needs, err = parseNeeds(f.needs, f.rule, connect.LaterID); err != nil {
		return refuse(err)
	}
	s.Delay = value.Duration(f.delay.D)
	switch {
	case f.delay.Given && f.at != "":
		return s, term.Misuse(c, "--delay and --at are both given; choose one")
	case f.count < 1:
		return s, term.Misuse(c, "--count is %d, want 1 or more", f.count)
	case f.count > 1 && f.Follow:
		return s, term.Misuse(c, "--follow shows one task; with --count use --wait")
	case f.count > 1 && s.ID != "":
		return s, term.Misuse(c, "--count: many tasks cannot have one --id")
	}
	return s, nil
}

// Wanted returns the submission of the flags of [RunFlags.TaskFlags], for a job or a command.
func (f *RunFlags) Wanted(c *cobra.Command, job string, argv []string, in io.Reader) (s birth.Submission, err error) {
	if s.Job, s.Spec, err = f.what(job, argv); err != nil {
		return s, err
	}
	if s.Params, s.Texts, err = settings.Params(f.ParamsIn, f.Params, in); err != nil {
		return s, err
	}
	if s.Labels, err = settings.Labels(f.Labels); err != nil {
		return s, err
	}
	if c.Flags().Changed("retries") {
		s.Retries = &f.retries
	}
	if err := f.limits.set(c, &s); err != nil {
		return s, err
	}
	if s.Signal, err = f.wantedSignal(); err != nil {
		return s, err
	}
	if c.Flags().Changed("window") {
		if f.window == "none" {
			f.window = ""
		}
		s.Window = &f.window
	}
	s.Nodes, s.NoNode = f.nodes, f.noNode
	if c.Flags().Changed("priority") {
		if err := placement.ValidPriority(f.priority); err != nil {
			return s, fmt.Errorf("--priority: %w", err)
		}
	}
	s.Priority, s.FairKey = f.priority, f.fairKey
	if parent := os.Getenv("TRACEPARENT"); birth.ValidTrace(parent) {
		s.Trace = parent
	}
	if err := f.place.put(c.Flags(), &s); err != nil {
		return s, err
	}
	s.Queue, s.Group, s.Title = f.Queue, f.group, f.title
	s.Run, s.Pending, s.Assign, s.Total = f.timeout.Wanted(), f.pending.Wanted(), f.assign.Wanted(), f.total.Wanted()
	if f.retries < 0 {
		return s, fmt.Errorf("--retries is %d, want 0 or more", f.retries)
	}
	if s.Queue != "" {
		if err := value.ValidName("queue", s.Queue); err != nil {
			return s, fmt.Errorf("--queue: %w", err)
		}
	}
	return s, s.Check()
}

// due returns the time of --at; zero if there is none. It depends on the present: a time of day
// that has passed means tomorrow.
func (f *RunFlags) due(now time.Time) (at time.Time, err error) {
	if f.at == "" {
		return at, nil
	}
	if at, err = view.ParseFuture(f.at, now); err != nil {
		err = fmt.Errorf("--at: %w", err)
	}
	return at, err
}

// what returns the job or the specification to run; exactly one must be given.
func (f *RunFlags) what(name string, argv []string) (string, *job.Spec, error) {
	given := 0
	for _, there := range []bool{name != "", len(argv) > 0 || f.image != "" && f.shell == "", f.shell != "", f.program != "", f.handler != "" && f.program == ""} {
		if there {
			given++
		}
	}
	switch {
	case given == 0:
		return "", nil, fmt.Errorf("nothing to run: name a job, or a command after \"--\"")
	case given > 1:
		return "", nil, fmt.Errorf("a task runs one thing: a job, a command after \"--\", --shell, --program, --handler or --image")
	case name != "" || f.handler != "" && f.program == "":
		if f.dir != "" || len(f.env) > 0 || f.stdin.Value != "" || f.talks.Value != "" || f.coded != "" || f.vars || f.memory != "" || f.image != "" {
			return "", nil, fmt.Errorf("--dir, --env, --stdin, --messages, --encoding, --params-env, --memory and --image are for commands, --shell and --program; a job or handler is given --param")
		}
		if name != "" {
			return name, nil, value.ValidName("job", name)
		}
		return "", &job.Spec{Handler: f.handler}, nil
	}
	env, err := settings.Pairs("env", f.env)
	if err != nil {
		return "", nil, err
	}
	spec := &job.Spec{Run: &job.Run{Argv: argv, Shell: f.shell, Program: f.program, Handler: f.handler, Dir: f.dir, Env: env, Stdin: f.stdin.Value, Messages: f.talks.Value, Encoding: f.coded, ParamsEnv: f.vars,
		Image: f.image, Pull: f.pull.Value, Mounts: f.mounts, Network: f.network, Runtime: f.runtime.Value}}
	if f.memory != "" {
		if spec.Resources.Memory, err = value.ParseSize(f.memory); err == nil && spec.Resources.Memory == 0 {
			err = fmt.Errorf("%q is too small: want more than zero, or leave it out for no bound", f.memory)
		}
		if err != nil {
			return "", nil, fmt.Errorf("--memory: %w", err)
		}
	}
	return "", spec, nil
}

func (a *Commands) submit(cmd *cobra.Command, s birth.Submission, f *RunFlags) error {
	ctx := cmd.Context()
	c, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if s.At, err = f.due(a.Now()); err != nil { // once more, by the log's time
		return term.Misuse(cmd, "%w", err)
	}
	resolve := func(part string) (task.ID, error) { return a.TaskID(ctx, c, part) }
	if s.Needs, err = parseNeeds(f.needs, f.rule, resolve); err != nil {
		return err
	}
	if f.Files != "" {
		if s.Files, err = a.FilesFor(cmd, c, f.Files); err != nil {
			return err
		}
	}
	if f.count > 1 {
		return a.submitMany(ctx, c, s, f)
	}
	asking, cancel := a.Asking(ctx)
	receipt, err := c.Submit(asking, s)
	cancel() // what follows may take as long as the task
	if err != nil {
		return err
	}
	a.Foresee(ctx, c, &s)
	if receipt.Again {
		a.Note("task %s was submitted before, as it is now: nothing new was made", receipt.ID)
	}
	if receipt.Existing && s.Collapse != nil {
		a.Note("task %s waits, and stands for this submission, too", receipt.ID)
	}
	if err := look.Of(a.App).Made(ctx, c, receipt, f.until()); err != nil {
		return err
	}
	if f.until() == (look.Until{}) && term.Terminal(a.Errs) {
		a.Note("`millrace task logs -f %s` follows it", receipt.ID)
	}
	return nil
}

func (f *RunFlags) until() look.Until {
	return look.Until{Follow: f.Follow, Wait: f.Wait, JSON: f.JSON()}
}

// submitMany submits equal tasks; it prints their ids as the log takes them.
func (a *Commands) submitMany(ctx context.Context, c *client.Client, s birth.Submission, f *RunFlags) error {
	began := time.Now()
	lines := bufio.NewWriterSize(a.Out, 1<<16)
	quiet := a.Printing(lines, a.Errs)
	var ids []task.ID
	var failed error
	count := 0
	err := c.SubmitMany(ctx, s, f.count, func(r client.Receipt) {
		count++
		switch {
		case f.Wait:
			ids = append(ids, r.ID)
		case failed != nil: // stdout is gone; the tasks are not
		case f.JSON():
			failed = quiet.WriteLine(r)
		default:
			_, failed = fmt.Fprintln(lines, r.ID)
		}
	})
	if flushed := lines.Flush(); failed == nil {
		failed = flushed
	}
	if err != nil {
		return fmt.Errorf("%d of %d tasks were submitted: %w", count, f.count, err)
	}
	if failed != nil {
		return failed
	}
	a.Foresee(ctx, c, &s)
	if term.Terminal(a.Errs) {
		a.Note("%s submitted in %s", wording.Plural(count, "task"), wording.Span(time.Since(began)))
	}
	if f.Wait {
		return look.Of(a.App).WaitAll(ctx, c, ids, f.JSON())
	}
	return nil
}
