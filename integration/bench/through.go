package bench

import (
	"context"
	"fmt"
	"time"

	"millrace/task"
)

// Through is what a server takes through whose log many tasks have gone, beside one with fresh ones.
type Through struct {
	// Tasks is how many have gone through, and Kept how many ended ones stay.
	Tasks int `json:"tasks"`
	Kept  int `json:"kept"`
	// Fresh is what the server takes with the first Kept of them, and After with the last.
	Fresh Stays `json:"fresh"`
	After Stays `json:"after"`
	// Most is what it took at most, at a look after each Kept tasks.
	Most Takes `json:"most"`
	// Seconds is how long all took, and BehindSeconds how long the log went on to forget.
	Seconds       float64 `json:"seconds"`
	BehindSeconds float64 `json:"behind_seconds"`
}

// Stays is what a server takes that has worked, and when it has started again.
type Stays struct {
	Worked  Takes `json:"worked"`
	Started Takes `json:"started"`
}

const (
	// throughKeeps is how many of the tasks stay: so many parts of them.
	throughKeeps = 100
	// throughRests is how long the read model has for giving back what is free of its file, which it does when
	// it has been at rest.
	throughRests = time.Minute
)

// ManyThrough measures what a server takes when n tasks have gone through its log, of which it keeps
// the last hundredth.
func ManyThrough(ctx context.Context, cfg Config, n int) (Through, error) {
	is := Through{Tasks: n, Kept: n / throughKeeps}
	for _, measure := range []func(context.Context, *bench) error{
		func(ctx context.Context, b *bench) (err error) {
			if err = is.part(ctx, b); err == nil {
				is.Fresh.Worked, err = b.takes(ctx)
			}
			return err
		},
		func(ctx context.Context, b *bench) (err error) {
			if is.Fresh.Started, err = b.takes(ctx); err == nil {
				err = is.through(ctx, b)
			}
			if err == nil {
				is.After.Worked, err = b.takes(ctx)
			}
			return err
		},
		func(ctx context.Context, b *bench) (err error) {
			is.After.Started, err = b.takes(ctx)
			return err
		},
	} {
		if err := cfg.Again(ctx, is.Kept); err != nil {
			return is, err
		}
		b := &bench{cfg: cfg.withDefaults()}
		err := b.open(ctx)
		if err == nil {
			bound, cancel := context.WithTimeout(ctx, forgetMost+time.Duration(n)*forgetEach)
			err = measure(bound, b)
			cancel()
		}
		if b.close(); err != nil {
			return is, err
		}
	}
	return is, nil
}

// part runs as many tasks as stay.
func (is *Through) part(ctx context.Context, b *bench) error {
	return (&Forgetting{Tasks: is.Kept}).run(ctx, b)
}

func (is *Through) through(ctx context.Context, b *bench) error {
	began := time.Now()
	for done := is.Kept; done < is.Tasks; done += is.Kept {
		if err := is.part(ctx, b); err != nil {
			return err
		}
		now, err := b.takesNow()
		if err != nil {
			return err
		}
		is.Most.Disk, is.Most.Memory = max(is.Most.Disk, now.Disk), max(is.Most.Memory, now.Memory)
		b.cfg.Progress(fmt.Sprintf("%d tasks in %v", done+is.Kept, time.Since(began).Round(time.Second)))
	}
	is.Seconds = time.Since(began).Seconds()
	err := b.until(ctx, func(counts map[string]int) bool {
		return counts[task.Finished.String()] <= is.Kept+is.Kept/throughKeeps+forgetSlack
	})
	is.BehindSeconds = time.Since(began).Seconds() - is.Seconds
	if err == nil && b.cfg.ServerDisk != nil {
		err = sleep(ctx, throughRests)
	}
	return err
}
