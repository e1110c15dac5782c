package connect

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/task/value"
)

// watchEvery is how often a command with --watch looks again.
const watchEvery = time.Second

// Frame is what a command shows at one moment.
type Frame struct {
	Table term.Table
	JSON  any // the same for -o json
	// Over tells whether it will not change any more.
	Over bool
}

// WatchFlag adds --watch.
func WatchFlag(c *cobra.Command, watch *bool) {
	c.Flags().BoolVarP(watch, "watch", "w", false, "print it again each second if it has changed, until Ctrl-C")
}

// Show prints the result of look; with watch again and again, each time with the patience of one
// request.
func (a *App) Show(ctx context.Context, watch bool, o *settings.Output, look func(context.Context) (Frame, error)) error {
	once := func() (Frame, error) {
		asking, cancel := a.Asking(ctx)
		defer cancel()
		return look(asking)
	}
	if !watch {
		v, err := once()
		switch {
		case err != nil:
			return err
		case o.JSON():
			return a.WriteJSON(v.JSON)
		}
		return a.Print(v.Table)
	}
	again := time.NewTicker(watchEvery)
	defer again.Stop()
	var before []byte
	for {
		v, err := once()
		if err != nil {
			return QuietEnd(ctx, err)
		}
		now, err := a.render(&v, o.JSON())
		if err != nil {
			return err
		}
		if !bytes.Equal(now, before) {
			before = now
			if !o.JSON() {
				a.Repaint()
			}
			if _, err := a.Out.Write(now); err != nil {
				return err
			}
		}
		if v.Over {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-again.C:
		}
	}
}

// render formats a frame for printing.
func (a *App) render(v *Frame, asJSON bool) ([]byte, error) {
	if asJSON {
		text, err := value.JSON(v.JSON)
		return append(text, '\n'), err
	}
	var b bytes.Buffer
	err := v.Table.Write(&b, term.Width(a.Out), term.Colourful(a.Out))
	return b.Bytes(), err
}

// Repaint clears the terminal before the next frame; it does nothing without a terminal.
func (a *App) Repaint() {
	if term.Terminal(a.Out) {
		fmt.Fprint(term.Unfiltered(a.Out), "\x1b[H\x1b[2J")
	}
}
