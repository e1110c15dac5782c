package connect

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"millrace/internal/cli/term"
)

// QuietEnd turns an end by Ctrl-C into a success.
func QuietEnd(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && errors.Is(ctx.Err(), context.Canceled) {
		return nil
	}
	return err
}

// Confirm asks the user; without a terminal it refuses.
func (a *App) Confirm(c *cobra.Command, question string) error {
	if !term.Terminal(a.In) {
		return term.Misuse(c, "there is no terminal to ask %q; --yes answers it", question)
	}
	fmt.Fprintf(a.Errs, "%s [y/N] ", question)
	answer, _ := bufio.NewReader(a.In).ReadString('\n') // no answer means no
	if strings.HasPrefix(strings.ToLower(answer), "y") {
		return nil
	}
	return &term.Fault{Code: term.ExitRefused, Err: errors.New("nothing was done")}
}

// The service may take long to answer a request that waits for the log.
const (
	CatchUp  = 30 * time.Second // AtLeast
	NextNews = 25 * time.Second // NewerThan
)
