package jet

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"millrace/task"
)

// Account is an account of the NATS server with the users of one installation of Millrace.
type Account struct {
	Name  string
	Users []User
}

// AccountsConfig returns accounts in the form of the configuration of a NATS server. The passwords
// are left to its environment: the user crawler-7 has the one in $CRAWLER_7_PASSWORD.
func AccountsConfig(accounts ...Account) (string, error) {
	var b strings.Builder
	line := func(depth int, format string, args ...any) {
		fmt.Fprintf(&b, strings.Repeat("  ", depth)+format+"\n", args...)
	}
	list := func(name string, rights []Right) {
		line(5, "%s = [", name)
		for _, r := range rights {
			line(6, "# %s", r.Why)
			for _, l := range wrapped(r.Subjects, 84) {
				line(6, "%s", l)
			}
		}
		line(5, "]")
	}
	line(0, "accounts {")
	for _, a := range accounts {
		if err := task.ValidName("account", a.Name); err != nil {
			return "", err
		}
		line(1, "%s {", a.Name)
		line(2, "jetstream: enabled")
		line(2, "users: [")
		for _, u := range a.Users {
			r, err := u.Rights()
			if err != nil {
				return "", err
			}
			line(3, "# %s", u.Role.about())
			line(3, "{")
			line(4, "user: %q, password: $%s", u.Name, u.PasswordVariable())
			line(4, "permissions {")
			list("publish", r.Publish)
			list("subscribe", r.Subscribe)
			if r.Responds {
				line(5, "allow_responses = true")
			}
			line(4, "}")
			line(3, "}")
		}
		line(2, "]")
		line(1, "}")
	}
	line(0, "}")
	return b.String(), nil
}

// wrapped quotes words and puts as many into a line as fit, with commas between.
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

// PasswordVariable is the variable in the environment of the NATS server that holds the user's password.
func (u User) PasswordVariable() string {
	return strings.ToUpper(strings.ReplaceAll(u.Name, "-", "_")) + "_PASSWORD"
}

// MarshalJSON implements [json.Marshaler]: the user with its rights.
func (u User) MarshalJSON() ([]byte, error) {
	r, err := u.Rights()
	if err != nil {
		return nil, err
	}
	return json.Marshal(struct {
		User  string `json:"user"`
		Role  Role   `json:"role"`
		Node  string `json:"node,omitempty"`
		Inbox string `json:"inbox_prefix"`
		Rights
	}{u.Name, u.Role, string(u.Node), u.inbox(), r})
}
