package rights

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
)

var sizeOf = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[1-9][0-9]*[KMGT]B$`) })

// RealmConfig returns the accounts of a realm as the block accounts of a NATS server's
// configuration. Passwords come from the server's environment: the user crawler-7 has the one in
// $CRAWLER_7_PASSWORD. The error is that of [Realm.Accounts].
func RealmConfig(r Realm) (string, error) {
	accounts, err := r.Accounts()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, a := range accounts {
		a.write(&b)
	}
	return b.String(), nil
}

func (a *Account) write(b *strings.Builder) {
	line := func(depth int, format string, args ...any) {
		fmt.Fprintf(b, strings.Repeat("  ", depth)+format+"\n", args...)
	}
	list := func(depth int, name string, rights []Right) {
		line(depth, "%s = [", name)
		for _, r := range rights {
			line(depth+1, "# %s", r.Why)
			for _, l := range wrapped(r.Subjects, 84) {
				line(depth+1, "%s", l)
			}
		}
		line(depth, "]")
	}
	line(0, "%s {", a.Name)
	switch {
	case !a.JetStream:
	case a.Store == "":
		line(1, "jetstream: enabled")
	default:
		line(1, "jetstream { max_file: %s }", a.Store)
	}
	line(1, "users: [")
	for _, u := range a.Users {
		line(2, "# %s", u.Role.about())
		line(2, "{")
		line(3, "user: %q, password: $%s", u.Name, User{Name: u.Name}.PasswordVariable())
		line(3, "permissions {")
		if len(u.Deny) == 0 {
			list(4, "publish", u.Publish)
		} else {
			line(4, "publish {")
			list(5, "allow", u.Publish)
			list(5, "deny", u.Deny)
			line(4, "}")
		}
		list(4, "subscribe", u.Subscribe)
		if u.Responds {
			line(4, "allow_responses = true")
		}
		line(3, "}")
		line(2, "}")
	}
	line(1, "]")
	if len(a.Exports) > 0 {
		line(1, "exports: [")
		for _, e := range a.Exports {
			kind, more := "stream", ""
			if e.Service {
				kind = "service"
			}
			if e.Streamed {
				more = fmt.Sprintf(", response: stream, response_threshold: %q", streamedFor)
			}
			line(2, "{ %s: %q, accounts: [%s]%s }", kind, e.Subject, strings.Join(e.To, ", "), more)
		}
		line(1, "]")
	}
	if len(a.Imports) > 0 {
		line(1, "imports: [")
		for _, i := range a.Imports {
			kind := "stream"
			if i.Service {
				kind = "service"
			}
			line(2, "{ %s: { account: %s, subject: %q } }", kind, i.From, i.Subject)
		}
		line(1, "]")
	}
	line(0, "}")
}

// Writers lists for each subject of Millrace which roles may publish there, and why.
func Writers() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SUBJECT\tWHO\tWHY")
	for _, g := range rights {
		why := g.why
		for _, subject := range g.publish {
			if !strings.HasPrefix(subject, "mr.") || subject == everything {
				continue // of JetStream; a server may publish to all
			}
			who := []Role{Server}
			for _, r := range g.roles {
				if r != Server {
					who = append(who, r)
				}
			}
			if strings.HasPrefix(subject, apiPrefix) {
				who = g.roles // servers ask for nothing
			}
			fmt.Fprintf(w, "%s\t%s\t%s\n", subject, Listed(who), why)
			why = ""
		}
	}
	_ = w.Flush() // it writes to memory
	return regexp.MustCompile(`(?m) +$`).ReplaceAllString(b.String(), "")
}

// Listed returns the names of roles as a list in a text.
func Listed(roles []Role) string {
	var names []string
	for _, r := range roles {
		names = append(names, string(r))
	}
	return strings.Join(names, ", ")
}

// wrapped quotes words and puts as many into a line as fit, separated by commas.
func wrapped(words []string, width int) (lines []string) {
	line := ""
	for _, w := range words {
		w = strconv.Quote(w)
		switch {
		case line == "":
			line = w
		case len(line)+2+len(w) > width:
			lines = append(lines, line)
			line = w
		default:
			line += ", " + w
		}
	}
	return append(lines, line)
}

// PasswordVariable is the variable in the environment of the NATS server that holds the user's
// password.
func (u User) PasswordVariable() string {
	return strings.ToUpper(strings.ReplaceAll(u.Name, "-", "_")) + "_PASSWORD"
}
