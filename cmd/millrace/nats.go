package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"millrace/jet"
	"millrace/node"
)

func (a *app) natsCommand() *cobra.Command {
	c := noun(&cobra.Command{
		Use:   "nats",
		Short: "What a NATS server of one's own has to know",
	})
	c.AddCommand(a.natsPermissionsCommand())
	return c
}

func (a *app) natsPermissionsCommand() *cobra.Command {
	var roles, nodes []string
	var account, user string
	var sharedInbox bool
	var o output
	c := &cobra.Command{
		Use:     "permissions",
		Aliases: []string{"perms"},
		Short:   "Print the users that a NATS server needs, with their permissions",
		Long: `Prints a block for the configuration of a NATS server: an account with one user for
each role, and one for each node. Each permission has its reason beside it. No command
and no process needs more than its role has.

  server  a "millrace server"
  worker  the worker of one node; --node names it
  client  the command line, and programs that use millrace/client
  asks    a program that only asks the service, which grants it everything

The passwords come from the environment of the NATS server: the user "client" has the
one in $CLIENT_PASSWORD. Each user has inboxes of its own, so that no other reads what it
is answered; say so where it connects: --inbox-prefix _INBOX_client, $NATS_INBOX_PREFIX,
or inbox_prefix in a context. "docs/operations.md" says who is trusted with what.`,
		Example: `  millrace nats permissions --node crawler-7
  millrace nats permissions --role worker --node crawler-7,crawler-8
  millrace nats permissions --role client --user alice -o json`,
		Args: takes(0, 0, ""),
	}
	fs := c.Flags()
	fs.StringSliceVar(&roles, "role", nil, "`roles` to print: server, worker, client, asks (default: all; worker only with --node)")
	fs.StringSliceVar(&nodes, "node", nil, "`names` of the nodes whose workers get a user each")
	fs.StringVar(&account, "account", "MILLRACE", "`name` of the account")
	fs.StringVar(&user, "user-name", "", "`name` of the user, of a single one (default: its role, or its node)")
	fs.BoolVar(&sharedInbox, "shared-inbox", false, "let all users have their answers in _INBOX, where each can read those of the others")
	o.flags(c, "conf", "json")
	c.RunE = func(*cobra.Command, []string) error {
		users, err := usersFor(roles, nodes)
		if err != nil {
			return misuseOf(err)
		}
		if user != "" {
			if len(users) != 1 {
				return misuseOf(fmt.Errorf("--user-name names one user, and these are %d: choose one with --role, and --node", len(users)))
			}
			users[0].Name = user
		}
		for i := range users {
			if sharedInbox {
				users[i].Inbox = "_INBOX"
			}
		}
		block, err := jet.AccountsConfig(jet.Account{Name: account, Users: users})
		if err != nil {
			return misuseOf(err)
		}
		if o.json() {
			return a.writeJSON(map[string]any{"account": account, "users": users})
		}
		_, err = fmt.Fprint(a.out, block)
		return err
	}
	return c
}

// usersFor makes a user of each role, and of each node.
func usersFor(roles, nodes []string) ([]jet.User, error) {
	if len(roles) == 0 {
		for _, r := range jet.Roles() {
			if r != jet.RoleWorker || len(nodes) > 0 {
				roles = append(roles, string(r))
			}
		}
	}
	if len(nodes) > 0 && !slices.Contains(roles, string(jet.RoleWorker)) {
		return nil, errors.New("--node names nodes of workers: leave it out, or add --role worker")
	}
	var users []jet.User
	for _, r := range roles {
		if r != string(jet.RoleWorker) {
			users = append(users, jet.User{Name: r, Role: jet.Role(r)})
			continue
		}
		if len(nodes) == 0 {
			return nil, errors.New("each worker has a user of its own: name its node with --node, as its --name does")
		}
		for _, n := range nodes {
			users = append(users, jet.User{Name: n, Role: jet.RoleWorker, Node: node.ID(n)})
		}
	}
	return users, nil
}
