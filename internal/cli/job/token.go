package job

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/events/jet/definitions"
	"millrace/events/jet/rights"
	"millrace/internal/cli/connect"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/projections/view"
	"millrace/service/client"
)

// Tokens is millrace token.
func (a *Commands) Tokens() *cobra.Command {
	c := settings.Noun(&cobra.Command{
		Use: "token", Aliases: []string{"tokens"},
		Short: "Tokens: callers of the service over HTTP, and their roles",
		Example: `  millrace token add shop --role submitter --expires 90d
  millrace token ls
  millrace token rm shop`,
	})
	c.AddCommand(a.tokenAdd(), a.tokenList(), a.history("token", definitions.ErrNoToken, a.CompleteTokens),
		a.tokenRemove())
	return c
}

func (a *Commands) tokenRemove() *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use: "rm NAME...", Aliases: []string{"del", "delete", "remove"},
		Short: "Remove tokens: they are refused from then on, and streams that they follow end",
		Args:  settings.Takes(1, -1, "token"), ValidArgsFunction: a.CompleteTokens,
	}
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	c.RunE = func(c *cobra.Command, names []string) error {
		if !yes {
			if err := a.Confirm(c, fmt.Sprintf("remove %s %s?", wording.Plural(len(names), "token"), strings.Join(names, ", "))); err != nil {
				return err
			}
		}
		return a.Online(func(ctx context.Context, cl *client.Client, _ []string) error {
			for _, name := range names {
				asking, cancel := a.Asking(ctx)
				err := cl.RemoveToken(asking, name)
				cancel()
				if err == nil {
					_, err = fmt.Fprintf(a.Out, "token %s removed\n", name)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})(c, names)
	}
	return c
}

func (a *Commands) tokenAdd() *cobra.Command {
	var o settings.Output
	var expires settings.Span
	var replace bool
	role := settings.Choice{}
	for _, r := range rights.Asking() {
		role.Of = append(role.Of, string(r))
	}
	c := &cobra.Command{
		Use: "add NAME --role ROLE", Aliases: []string{"new", "create"},
		Short: "Make a token, and print it",
		Long: `Makes a token and prints it once; no copy is kept. Programs send it to the service over
HTTP. All events that follow from their requests name NAME as their actor.

  submitter  submits tasks, and asks what became of those whose ids it has
  viewer     sees everything and changes nothing
  operator   may do everything`,
		Example: `  millrace token add shop --role submitter --expires 90d
  millrace token add shop --role submitter --replace`,
		Args: settings.Takes(1, 1, "name"), DisableFlagsInUseLine: true,
	}
	c.Flags().Var(&role, "role", "its role")
	c.Flags().Var(&expires, "expires", "refuse it after so long: 12h, 90d (default never)")
	c.Flags().BoolVar(&replace, "replace", false, "make a new token of this name; the old one is refused from then on")
	o.Flags(c, "text", "json")
	c.RunE = func(c *cobra.Command, args []string) error {
		if role.Value == "" {
			return term.Misuse(c, "--role is missing: want %s", role.Type())
		}
		if expires.Given && expires.D <= 0 {
			return term.Misuse(c, "--expires is %v, want more than 0", expires.D)
		}
		return a.Brief(func(ctx context.Context, cl *client.Client, args []string) error {
			until := time.Time{}
			if expires.Given {
				until = a.Now().Add(expires.D).UTC().Truncate(time.Second)
			}
			secret, err := cl.AddToken(ctx, args[0], rights.Role(role.Value), until, replace)
			if err != nil {
				return err
			}
			if o.JSON() {
				return a.WriteJSON(struct {
					Name    string    `json:"name"`
					Role    string    `json:"role"`
					Token   string    `json:"token"`
					Expires time.Time `json:"expires,omitzero"`
				}{args[0], role.Value, secret, until})
			}
			_, err = fmt.Fprintln(a.Out, secret)
			a.Note("keep it: it cannot be shown again")
			return err
		})(c, args)
	}
	return c
}

func (a *Commands) tokenList() *cobra.Command {
	return (&connect.Reading[[]shownToken]{
		Use: "ls", Short: "List the tokens: when they expire, and when they were last used",
		Then: connect.Then{Folds: []view.Kind{view.Definitions}, Lacks: []string{"when they were used"}},
		Read: func(ctx context.Context, cl *client.Client, s *connect.Sight, _ string) ([]shownToken, error) {
			all, broken := cl.Tokens(ctx)
			var used map[string]time.Time
			if s.Past != nil { // when they were used is not recorded
				all, broken = client.TokensOf(ctx, s.View)
			} else if len(all) > 0 {
				names := make([]string, len(all))
				for i := range all {
					names[i] = all[i].Name
				}
				var err error
				used, err = cl.TokenUses(ctx, names)
				broken = errors.Join(broken, err)
			}
			rows := make([]shownToken, len(all))
			for i := range all {
				rows[i] = shownToken{all[i], used[all[i].Hash], used != nil}
			}
			return rows, broken
		},
		Table: tokenList.Table, Names: tokenList.Names, Called: "names",
	}).Command(a.App)
}

var tokenList = connect.ListOf("token", func(now time.Time) []term.Column[shownToken] {
	type row = *shownToken
	return []term.Column[shownToken]{
		term.Text("TOKEN", 0, func(k row) string { return k.Name }),
		term.Text("ROLE", 0, func(k row) string { return string(k.Role) }),
		term.Text("EXPIRES", 0, func(k row) string { return expiry(k.Expires, now) }),
		term.Text("USED", 0, func(k row) string {
			switch {
			case !k.Used.IsZero():
				return wording.Age(k.Used, now) + " ago"
			case k.known:
				return "never"
			}
			return ""
		}),
		term.Text("MADE", 2, func(k row) string { return wording.Age(k.Made, now) }),
		term.Text("BY", 1, func(k row) string { return term.Printable(k.By) }),
	}
})

// shownToken is a token in JSON.
type shownToken struct {
	definitions.StoredToken
	// Used is when it was last used, as of a minute ago; zero if that is not known, or if it never was.
	Used  time.Time `json:"used,omitzero"`
	known bool
}

// expiry says when a token stops working.
func expiry(at, now time.Time) string {
	switch {
	case at.IsZero():
		return "never"
	case !at.After(now):
		return "expired"
	}
	return wording.Moment(at, now)
}
