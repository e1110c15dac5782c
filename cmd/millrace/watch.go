package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

// watchEvery is how often a command with --watch looks again.
const watchEvery = time.Second

// frame is what a command shows of a moment.
type frame struct {
	table table
	json  any // the same for -o json
	// over is whether it stays as it is.
	over bool
}

// watchFlag adds --watch.
func watchFlag(c *cobra.Command, watch *bool) {
	c.Flags().BoolVarP(watch, "watch", "w", false, "print it again each second if it has changed, until Ctrl-C")
}

// show prints what look returns; with watch again and again, each time with the patience of one request.
func (a *app) show(ctx context.Context, watch bool, o *output, look func(context.Context) (frame, error)) error {
	once := func() (frame, error) {
		asking, cancel := a.asking(ctx)
		defer cancel()
		return look(asking)
	}
	if !watch {
		v, err := once()
		switch {
		case err != nil:
			return err
		case o.json():
			return a.writeJSON(v.json)
		}
		return a.print(v.table)
	}
	again := time.NewTicker(watchEvery)
	defer again.Stop()
	var before []byte
	for {
		v, err := once()
		if err != nil {
			return quietEnd(ctx, err)
		}
		now, err := a.render(&v, o.json())
		if err != nil {
			return err
		}
		if !bytes.Equal(now, before) {
			before = now
			if !o.json() {
				a.repaint()
			}
			if _, err := a.out.Write(now); err != nil {
				return err
			}
		}
		if v.over {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-again.C:
		}
	}
}

// render is a view as it is printed.
func (a *app) render(v *frame, asJSON bool) ([]byte, error) {
	var b bytes.Buffer
	if asJSON {
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		err := e.Encode(v.json)
		return b.Bytes(), err
	}
	err := v.table.write(&b, width(a.out), colourful(a.out))
	return b.Bytes(), err
}

// repaint clears the terminal for what is printed next; where none is, it does nothing.
func (a *app) repaint() {
	if terminal(a.out) {
		fmt.Fprint(unfiltered(a.out), "\x1b[H\x1b[2J")
	}
}
