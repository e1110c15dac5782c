package main

import (
	"context"
	"fmt"

	"github.com/dustin/go-humanize"
	"github.com/spf13/pflag"

	"millrace/cmd/millrace/bench"
	"millrace/task"
)

// chatterFlags ask for the parts of the benchmark with one task that says much.
type chatterFlags struct {
	logs    task.Size
	records int
}

func (f *chatterFlags) add(fs *pflag.FlagSet) {
	fs.TextVar(&f.logs, "log-bytes", task.Size(0), "measure only a task that prints so many `bytes`, such as 1GB")
	fs.IntVar(&f.records, "records", 0, "measure only a task that produces so many small `records`")
}

func (f *chatterFlags) asked() bool { return f.logs > 0 || f.records > 0 }

// chatterReport is what was asked for.
type chatterReport struct {
	Logs    *bench.Chatter `json:"logs,omitempty"`
	Records *bench.Chatter `json:"records,omitempty"`
}

func (a *app) benchChatter(ctx context.Context, cfg bench.Config, sync string, f *chatterFlags, o *output) error {
	_, stop, err := a.benchSetUp(ctx, &cfg, sync, noMetrics)
	if err != nil {
		return err
	}
	defer stop()
	var r chatterReport
	if f.logs > 0 {
		c, err := bench.Logs(ctx, cfg, int64(f.logs))
		if err != nil {
			return err
		}
		r.Logs = &c
	}
	if f.records > 0 {
		c, err := bench.Records(ctx, cfg, f.records)
		if err != nil {
			return err
		}
		r.Records = &c
	}
	if o.json() {
		return a.writeJSON(r)
	}
	return a.print(chatterTable(&r))
}

func chatterTable(r *chatterReport) table {
	t := table{title: "One task that says much", header: []string{"WHAT", "MILLRACE", "BELOW IT", "RATIO"}}
	value := func(what, v string) { t.add(plain(what), plain(v), plain(""), plain("")) }
	rest := func(what string, c *bench.Chatter) {
		value(what+" missing, extra", fmt.Sprintf("%d, %d of %d", c.Missing, c.Extra, c.Items))
		value(what+" read back", fmt.Sprintf("%.0f/s", c.ReadPerSecond))
		value("heap of the worker, max", humanize.IBytes(uint64(max(c.HeapMax, 0)))) // #nosec G115 -- not negative
		value("start latency of others p50, p99, max", fmt.Sprintf("%.2f, %.2f, %.2f ms", c.Others.P50, c.Others.P99, c.Others.Max))
	}
	if c := r.Logs; c != nil {
		t.add(plain("lines of 100 bytes"), plain(fmt.Sprintf("%.0f MB/s", c.BytesPerSecond/1e6)), plain(fmt.Sprintf("%.0f MB/s", c.FloorBytesPerSecond/1e6)), plain(fmt.Sprintf("%.2f", c.Ratio)))
		rest("lines", c)
	}
	if c := r.Records; c != nil {
		value("records", fmt.Sprintf("%.0f/s", c.ItemsPerSecond))
		rest("records", c)
	}
	return t
}
