package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/dustin/go-humanize"
	"github.com/spf13/pflag"

	"millrace/integration/bench"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/task/value"
)

// withPages are flags of a server that serves pages.
var withPages = []string{"--http", "127.0.0.1:0"}

// chatterFlags select further parts of the benchmark: output of processes, idle processes, their
// files; and schedules.
type chatterFlags struct {
	logs      value.Size
	records   int
	idle      int
	follow    int
	files     value.Size
	schedules int
	nodes     int
	queues    int
	servers   int
	pages     int
	keep      string
	forget    int
	through   int
}

func (f *chatterFlags) add(fs *pflag.FlagSet) {
	fs.TextVar(&f.logs, "log-bytes", value.Size(0), "measure only a task that prints so many `bytes`, such as 1GB")
	fs.IntVar(&f.records, "records", 0, "measure only a task that produces so many small `records`")
	fs.IntVar(&f.idle, "idle", 0, "measure only the cost of a `number` of sleeping processes, all at once on one worker")
	fs.IntVar(&f.follow, "follow", 0, "measure only how long a `number` of lines take, one by one, to reach a follower")
	fs.TextVar(&f.files, "files", value.Size(0), "measure only a folder of so many `bytes` on its way to the server and back")
	fs.IntVar(&f.schedules, "schedules", 0, "measure only how late a `number` of schedules make their tasks, due within 4s and all at one moment")
	fs.IntVar(&f.nodes, "nodes", 0, "measure only the cost of a `number` of nodes that wait for work, and how long until all are ready")
	fs.IntVar(&f.queues, "node-queues", 1, "`number` of queues over which these nodes are spread")
	fs.IntVar(&f.servers, "node-servers", 1, "`number` of NATS servers for these nodes; each holds everything")
	fs.IntVar(&f.pages, "pages", 0, "measure only how long pages take, and how large they are, with a `number` of tasks")
	fs.IntVar(&f.forget, "forget", 0, "measure only what it costs that the log forgets a `number` of tasks, and beside work")
	fs.IntVar(&f.through, "through", 0, "measure only what the server takes when a `number` of tasks have gone through the log, of which it keeps the last hundredth")
	fs.StringVar(&f.keep, "keep", "", "keep the server's data for --pages in a `directory`, and measure what is there already")
}

func (f *chatterFlags) asked() bool {
	return f.logs > 0 || f.records > 0 || f.idle > 0 || f.follow > 0 || f.files > 0 || f.schedules > 0 || f.nodes > 0 || f.pages > 0 || f.forget > 0 || f.through > 0
}

// chatterReport holds the requested parts.
type chatterReport struct {
	Logs    *bench.Chatter     `json:"logs,omitempty"`
	Records *bench.Chatter     `json:"records,omitempty"`
	Idle    *bench.Idle        `json:"idle,omitempty"`
	Follow  *bench.Percentiles `json:"follow_ms,omitempty"`
	Files   *bench.Files       `json:"files,omitempty"`

	Schedules *bench.Schedules `json:"schedules,omitempty"`
	Waiting   *bench.Waiting   `json:"nodes,omitempty"`
	Pages     *[]bench.Page    `json:"pages,omitempty"`

	Forget  *bench.Forgetting `json:"forget,omitempty"`
	Through *bench.Through    `json:"through,omitempty"`
}

func (a *app) benchChatter(ctx context.Context, cfg bench.Config, sync string, f *chatterFlags, o *settings.Output) error {
	start := freshServer(sync, settings.Off)
	switch {
	case f.pages > 0 && f.keep != "":
		start = func(ctx context.Context, product string) (*bench.Server, error) {
			return bench.StartServerIn(ctx, f.keep, product, sync, settings.Off, withPages...)
		}
	case f.pages > 0:
		start = freshServer(sync, settings.Off, withPages...)
	case f.forget > 0 || f.through > 0:
		start = freshServer(sync, settings.Off, keeping(0)...)
	case f.servers > 1:
		cfg.Layout.Replicas = f.servers
		start = func(ctx context.Context, product string) (*bench.Server, error) {
			return bench.StartServerOn(ctx, f.servers, product, settings.Off)
		}
	}
	_, stop, err := a.benchSetUp(ctx, &cfg, sync, start)
	if err != nil {
		return err
	}
	defer stop()
	var r chatterReport
	for _, measure := range []func() error{
		measured(f.logs > 0, &r.Logs, func() (bench.Chatter, error) { return bench.Logs(ctx, cfg, int64(f.logs)) }),
		measured(f.records > 0, &r.Records, func() (bench.Chatter, error) { return bench.Records(ctx, cfg, f.records) }),
		measured(f.idle > 0, &r.Idle, func() (bench.Idle, error) { return bench.Idling(ctx, cfg, f.idle) }),
		measured(f.follow > 0, &r.Follow, func() (bench.Percentiles, error) { return bench.Following(ctx, cfg, f.follow) }),
		measured(f.files > 0, &r.Files, func() (bench.Files, error) { return bench.Bundle(ctx, cfg, int64(f.files)) }),
		measured(f.nodes > 0, &r.Waiting, func() (bench.Waiting, error) { return bench.ManyNodes(ctx, cfg, f.nodes, f.queues, 0) }),
		measured(f.pages > 0, &r.Pages, func() ([]bench.Page, error) { return bench.ManyPages(ctx, cfg, f.pages) }),
		measured(f.forget > 0, &r.Forget, func() (bench.Forgetting, error) { return bench.ManyForgotten(ctx, cfg, f.forget) }),
		measured(f.through > 0, &r.Through, func() (bench.Through, error) { return bench.ManyThrough(ctx, cfg, f.through) }),
		measured(f.schedules > 0, &r.Schedules, func() (bench.Schedules, error) { return bench.ManySchedules(ctx, cfg, f.schedules) }),
	} {
		if err := measure(); err != nil {
			return err
		}
	}
	if o.JSON() {
		return a.WriteJSON(r)
	}
	return a.Print(chatterTable(&r))
}

// keeping are flags of a server that keeps so many ended tasks, 0 for all.
func keeping(n int) []string {
	if n == 0 {
		return []string{"--keep-tasks", settings.Off}
	}
	return []string{"--keep-tasks", strconv.Itoa(n)}
}

// measured returns a part of the benchmark that stores its result, if it was requested.
func measured[T any](asked bool, to **T, measure func() (T, error)) func() error {
	return func() error {
		if !asked {
			return nil
		}
		found, err := measure()
		*to = &found
		return err
	}
}

func chatterTable(r *chatterReport) term.Table {
	t := term.Table{Title: "Around processes", Header: []string{"WHAT", "MILLRACE", "BELOW IT", "RATIO"}}
	value := func(what, v string) { t.Add(term.Plain(what), term.Plain(v), term.Plain(""), term.Plain("")) }
	rest := func(what string, c *bench.Chatter) {
		value(what+" missing, extra", fmt.Sprintf("%d, %d of %d", c.Missing, c.Extra, c.Items))
		value(what+" read back", fmt.Sprintf("%.0f/s", c.ReadPerSecond))
		value("heap of the worker, max", humanize.IBytes(uint64(max(c.HeapMax, 0)))) // not negative
		value("start latency of others p50, p99, max", fmt.Sprintf("%.2f, %.2f, %.2f ms", c.Others.P50, c.Others.P99, c.Others.Max))
	}
	if c := r.Logs; c != nil {
		t.Add(term.Plain("lines of 100 bytes"), term.Plain(fmt.Sprintf("%.0f MB/s", c.BytesPerSecond/1e6)), term.Plain(fmt.Sprintf("%.0f MB/s", c.FloorBytesPerSecond/1e6)), term.Plain(fmt.Sprintf("%.2f", c.Ratio)))
		rest("lines", c)
	}
	if c := r.Records; c != nil {
		value("records", fmt.Sprintf("%.0f/s", c.ItemsPerSecond))
		rest("records", c)
	}
	if i := r.Idle; i != nil {
		value(fmt.Sprintf("%d processes at once: all run, all cancelled", i.Tasks), fmt.Sprintf("%.1f, %.1f s", i.StartSeconds, i.EndSeconds))
		value("memory of each: worker, server", fmt.Sprintf("%.0f, %.0f kB", i.WorkerBytes/1000, i.ServerBytes/1000))
	}
	if f := r.Follow; f != nil {
		value("from printing to following p50, p99, max", fmt.Sprintf("%.0f, %.0f, %.0f ms", f.P50, f.P99, f.Max))
	}
	if f := r.Files; f != nil {
		way := func(what string, here float64) {
			t.Add(term.Plain(what), term.Plain(fmt.Sprintf("%.0f MB/s", here/1e6)), term.Plain(fmt.Sprintf("%.0f MB/s copied", f.CopyPerSecond/1e6)), term.Plain(fmt.Sprintf("%.2f", here/f.CopyPerSecond)))
		}
		way("files pushed", f.PushPerSecond)
		way("files pulled", f.PullPerSecond)
		value("one byte changed, pushed again", fmt.Sprintf("%.1f s, %s sent", f.AgainSeconds, humanize.IBytes(uint64(max(f.AgainSent, 0)))))      // not negative
		value("heap, and memory of the server, max", humanize.IBytes(uint64(max(f.HeapMax, 0)))+", "+humanize.IBytes(uint64(max(f.ServerMax, 0)))) // not negative
	}
	if s := r.Schedules; s != nil {
		round := func(when string, f *bench.Ticks) {
			what := fmt.Sprintf("%d schedules due %s", s.Schedules, when)
			value(what+": tasks late p50, p99, max", fmt.Sprintf("%.0f, %.0f, %.0f ms", f.Late.P50, f.Late.P99, f.Late.Max))
			value("timers late p50, p99, max", fmt.Sprintf("%.0f, %.0f, %.0f ms", f.Timers.P50, f.Timers.P99, f.Timers.Max))
			value("tasks made, processor time of the server for each", fmt.Sprintf("%.0f/s, %.0f µs", f.PerSecond, f.ServerMicros))
			value("early, missing, extra", fmt.Sprintf("%d, %d, %d", f.Early, f.Missing, f.Extra))
		}
		round(fmt.Sprintf("within %.0f s", s.SpreadSeconds), &s.Spread)
		round("at one moment", &s.AtOnce)
		value("schedules stored", fmt.Sprintf("%.0f/s", s.StorePerSecond))
	}
	if w := r.Waiting; w != nil {
		value(fmt.Sprintf("%d nodes on %d queues: all ready", w.Nodes, w.Queues), fmt.Sprintf("%.1f s", w.ReadySeconds))
		value("memory of each: node, server", fmt.Sprintf("%.0f, %.0f kB", w.NodeBytes/1000, w.ServerBytes/1000))
		value("messages of each while it waits", fmt.Sprintf("%.2f/s", w.Messages))
		value("processor: nodes, server", fmt.Sprintf("%.0f%%, %.0f%% of one", 100*w.NodesBusy, 100*w.ServerBusy))
		value("start latency p50, p99, max", fmt.Sprintf("%.2f, %.2f, %.2f ms", w.StartLatency.P50, w.StartLatency.P99, w.StartLatency.Max))
	}
	takes := func(what string, is bench.Takes) {
		value("disk, memory "+what, humanize.IBytes(uint64(max(is.Disk, 0)))+", "+humanize.IBytes(uint64(max(is.Memory, 0)))) // not negative
	}
	if f := r.Forget; f != nil {
		value(fmt.Sprintf("%d tasks forgotten", f.Tasks), fmt.Sprintf("%.1f s", f.Seconds))
		value("processor time of the server for a million", fmt.Sprintf("%.1f s", f.ServerSeconds))
		takes("before", f.Before)
		takes("after", f.After)
		t.Add(term.Plain("no-op tasks meanwhile"), term.Plain(fmt.Sprintf("%.0f/s", f.With.TasksPerSecond)),
			term.Plain(fmt.Sprintf("%.0f/s without", f.Without.TasksPerSecond)), term.Plain(fmt.Sprintf("%.2f", f.Ratio)))
		for _, m := range []struct {
			what string
			bench.Work
		}{{"meanwhile", f.With}, {"without", f.Without}} {
			l := &m.StartLatency
			value("start latency "+m.what+" p50, p99, max", fmt.Sprintf("%.2f, %.2f, %.2f ms", l.P50, l.P99, l.Max))
			value("read model behind "+m.what+", max", fmt.Sprintf("%.0f ms", m.BehindMS))
		}
	}
	if is := r.Through; is != nil {
		value(fmt.Sprintf("%d tasks, then until the log had forgotten", is.Tasks-is.Kept), fmt.Sprintf("%.0f, %.0f s", is.Seconds, is.BehindSeconds))
		takes(fmt.Sprintf("with %d fresh ones", is.Kept), is.Fresh.Worked)
		takes("and started again", is.Fresh.Started)
		takes("at most", is.Most)
		takes(fmt.Sprintf("after %d", is.Tasks), is.After.Worked)
		takes("after that, started again", is.After.Started)
	}
	if r.Pages != nil {
		for _, p := range *r.Pages {
			value(p.Path+": p50, p95, server, compressed", fmt.Sprintf("%.1f, %.1f, %.1f ms, %.1f kB", p.P50, p.P95, p.Server/1000, float64(p.Bytes)/1000))
		}
	}
	return t
}
