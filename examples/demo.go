// Package examples is `millrace demo`: the example of a program, examples/crawl, at work in a Millrace of
// its own, and with --keep the jobs of this folder, which show what else there is.
package examples

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"millrace/events"
	"millrace/events/jet"
	"millrace/events/jet/embed"
	"millrace/events/jet/streams"
	"millrace/examples/crawl/crawler"
	"millrace/internal/cli/connect"
	"millrace/internal/cli/serve"
	"millrace/internal/cli/settings"
	look "millrace/internal/cli/task"
	"millrace/internal/cli/term"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/jobfile"
	"millrace/task/output"
)

// crawl is the job file of the crawler in examples/crawl.
//
//go:embed crawl/crawl.yaml
var crawl []byte

// CrawlName is the hidden command that runs the example's program.
const CrawlName = "example-crawl"

// Commands makes the command of a run.
type Commands struct{ *connect.App }

// Of returns the commands of a run.
func Of(a *connect.App) *Commands { return &Commands{a} }

// Command is `millrace demo`.
func (a *Commands) Command() *cobra.Command {
	var e serve.Embedded
	var keep bool
	c := &cobra.Command{
		Use:   "demo [URL]",
		Short: "See Millrace work: crawl a site in a temporary `millrace dev`",
		Long: `Starts a "millrace dev" in a temporary directory, runs the crawler of examples/crawl
in it, and shows its progress, its log, its results and the task's timeline. It crawls the
site at URL, or a small one that it brings along.

With --keep it stays up, prints a link for a browser, and runs more to look at: nightly
schedules, a job of several steps, failures, a paused queue, and a node that goes and
returns.`,
		Example: `  millrace demo
  millrace demo http://127.0.0.1:8000/
  millrace demo --keep`,
		Args: settings.Takes(0, 1, "URL"),
	}
	c.Flags().BoolVar(&keep, "keep", false, "leave it running afterwards, until Ctrl-C")
	c.Flags().StringVar(&e.Data, "data", "", "`directory` of the data (default a temporary one, removed afterwards)")
	c.Flags().IntVar(&e.Port, "port", 0, "`port` to listen on, 0 for a free one")
	e.Host, e.Set = "127.0.0.1", c.Flags()
	flags := settings.AddFlags(c.Flags(), settings.Dev, settings.Staying)
	c.RunE = func(c *cobra.Command, args []string) error {
		s, _, err := a.LoadSettings(flags, settings.Dev)
		if err != nil {
			return err
		}
		if !c.Flags().Changed("metrics") {
			s.Metrics = "" // the settings file is for permanent processes
		}
		if !c.Flags().Changed("http") {
			if s.HTTP.Address = ""; keep {
				s.HTTP.Address = settings.DevHTTP
			}
		}
		if e.Data == "" {
			if e.Data, err = os.MkdirTemp("", "millrace-demo-"); err != nil {
				return err
			}
			defer os.RemoveAll(e.Data)
		}
		url := ""
		if len(args) == 1 {
			url = args[0]
		}
		return a.demo(c.Context(), &e, s, url, keep)
	}
	return c
}

// CrawlCommand runs the crawler as a separate program, as a user's would run.
func CrawlCommand() *cobra.Command {
	return &cobra.Command{
		Use: CrawlName, Hidden: true, DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			return term.ExitWith(crawler.Main(args, os.Stdin, os.Stdout, os.Stderr))
		},
	}
}

func (a *Commands) demo(ctx context.Context, e *serve.Embedded, s settings.Values, url string, keep bool) error {
	a.Demonstrating = true
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	shown := make(chan error, 1)
	err := serve.Of(a.App).EmbeddedServer(ctx, e, s, &serve.WorkerConfig{}, func(server *embed.Server) {
		go func() {
			err := a.show(ctx, server, url, e.Data, keep)
			if !keep || err != nil {
				stop()
			}
			shown <- err
		}()
	})
	if err != nil {
		return err
	}
	return <-shown
}

// show runs the crawl, and the mix as well if the demo stays.
func (a *Commands) show(ctx context.Context, server *embed.Server, url, data string, keep bool) error {
	nc, err := server.Connect(jet.Resilient("millrace demo", a.Logger())...)
	if err != nil {
		return err
	}
	defer nc.Close()
	store, err := jet.Open(ctx, nc, streams.Layout{}, jet.WithClock(a.Clock))
	if err != nil {
		return err
	}
	defer store.Close()
	c := client.New(store, "")
	if err := a.showCrawl(ctx, c, url); err != nil || ctx.Err() != nil {
		return err
	}
	if !keep {
		fmt.Fprintln(a.Out, "\nThat was all: one log, read three times. Next: `millrace demo --keep` for a browser; or `millrace dev`, and `millrace run --follow -- echo hello` beside it.")
		return nil
	}
	m := &mix{App: a.App, server: server, client: c, data: data}
	if err := m.prepare(ctx); ctx.Err() != nil {
		return nil // it was told to end
	} else if err != nil {
		return err
	}
	fmt.Fprintln(a.Out, "\nIt stays until Ctrl-C. The link at the top lets a browser in: nightly and hourly schedules, a release that fails at its last step, an import\n"+
		"to retry, films that are encoded, a paused queue, and the node camera, which goes and returns.")
	if err := m.run(ctx); ctx.Err() == nil {
		return err
	}
	return nil
}

// showCrawl performs what a user would type, step by step.
func (a *Commands) showCrawl(ctx context.Context, c *client.Client, url string) error {
	job, err := crawlJob()
	if err != nil {
		return err
	}
	if _, _, err := c.Apply(ctx, job); err != nil {
		return err
	}
	submission := birth.Submission{Job: job.Name}
	if url != "" {
		quoted, err := json.Marshal(url)
		if err != nil {
			return err
		}
		submission.Params = map[string]json.RawMessage{"url": quoted}
	}
	a.heading("millrace job apply -f examples/crawl/crawl.yaml; millrace run crawl --follow")
	receipt, err := c.Submit(ctx, submission)
	if err != nil {
		return err
	}
	ended := look.Of(a.App).Follow(ctx, c, receipt.ID, false)
	if ctx.Err() != nil {
		return nil
	}
	id := string(receipt.ID)
	a.heading("millrace task data " + id)
	if err := a.showRecords(ctx, c, receipt.ID); err != nil {
		return err
	}
	records, err := c.History(ctx, receipt.ID)
	if err != nil {
		return err
	}
	t := events.FoldTask(receipt.ID, records)
	a.heading("millrace task show " + id)
	if err := a.Print(look.Details(&t, a.Now())); err != nil {
		return err
	}
	a.heading("millrace task events " + id)
	if err := a.Print(look.History(records)); err != nil {
		return err
	}
	return ended
}

// crawlJob is the example's job, run by this very program.
func crawlJob() (job.Job, error) {
	jobs, err := jobfile.Parse("examples/crawl/crawl.yaml", crawl)
	if err != nil {
		return job.Job{}, err
	}
	self, err := os.Executable()
	if err != nil {
		return job.Job{}, fmt.Errorf("find this program: %w", err)
	}
	first := jobs[0]
	first.Run = &job.Run{Argv: []string{self, CrawlName}, Stdin: job.StdinOpen}
	return first, nil
}

func (a *Commands) heading(command string) { fmt.Fprintf(a.Out, "\n$ %s\n", command) }

// shownRecords is how many records the demo prints.
const shownRecords = 8

func (a *Commands) showRecords(ctx context.Context, c *client.Client, id task.ID) error {
	n := 0
	err := c.Records(ctx, id, func(r output.Records) error {
		for _, item := range r.Items {
			if n++; n <= shownRecords {
				fmt.Fprintln(a.Out, string(item))
			}
		}
		return nil
	})
	if n > shownRecords {
		fmt.Fprintf(a.Out, "… and %d more\n", n-shownRecords)
	}
	return err
}
