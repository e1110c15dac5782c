package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"millrace/events/jet/rights"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/task/node"
	"millrace/task/placement"
)

func (a *app) natsCommand() *cobra.Command {
	c := settings.Noun(&cobra.Command{
		Use:   "nats",
		Short: "Configuration for your own NATS server",
	})
	c.AddCommand(a.natsPermissionsCommand())
	return c
}

func (a *app) natsPermissionsCommand() *cobra.Command {
	var names, nodes, queues, selectors []string
	realm := rights.Realm{Name: rights.DefaultRealm}
	var user string
	var sharedInbox bool
	var o settings.Output
	c := &cobra.Command{
		Use:     "permissions",
		Aliases: []string{"perms"},
		Short:   "Print the users that a NATS server needs, with their permissions",
		Long: `Prints accounts for the block "accounts" in the configuration of a NATS server: one with the
streams for servers, and one for each other role, which has from the first what it needs.
Each has one user, and that of workers one for each node. Each permission has its reason
beside it. No command and no process needs more than its role has. "-o table" says of each
subject who may publish there.

  server     a "millrace server"
  worker     the worker of one node; --node names it
  submitter  a program that has the service make tasks, under its own name
  viewer     whoever looks at everything and changes nothing
  operator   the command line, and programs that use millrace/service/client

The passwords come from the environment of the NATS server: the user "operator" has the
one in $OPERATOR_PASSWORD. Each user has inboxes of its own, so that no other reads what it
is answered; say so where it connects: --inbox-prefix _INBOX_operator, $NATS_INBOX_PREFIX,
or inbox_prefix in a context. "docs/permissions.md" says who is trusted with what.

A worker may touch the consumers of all queues, unless --queue says which it serves. Then it
gets tasks that ask for labels only as --selector says. These rights are long: each lane that
a queue may have is named.`,
		Example: `  millrace nats permissions --node crawler-7
  millrace nats permissions --role worker --node crawler-7,crawler-8
  millrace nats permissions --node crawler-7,till-1 --queue crawler-7=crawl,till-1=shop
  millrace nats permissions --node gpu-1 --queue train --selector 'gpu=a100,zone in (eu,us)'
  millrace nats permissions --account CRAWL --store 50GB --node crawler-7
  millrace nats permissions -o table
  millrace nats permissions --role submitter --user-name shop -o json`,
		Args: settings.Takes(0, 0, ""),
	}
	fs := c.Flags()
	fs.StringSliceVar(&names, "role", nil, "`roles` to print: server, worker, submitter, viewer, operator (default: all; worker only with --node)")
	fs.StringSliceVar(&nodes, "node", nil, "`names` of the nodes whose workers get a user each")
	fs.StringSliceVar(&queues, "queue", nil, "`queues` whose consumers these workers may touch, and no others: QUEUE for all nodes, or NODE=QUEUE (default: all queues)")
	fs.StringArrayVar(&selectors, "selector", nil, "`labels` that tasks in these queues may ask for, spelled as they do, so that these workers get them; can be repeated")
	fs.StringVar(&realm.Name, "account", rights.DefaultRealm, "`name` of the account with the streams, with which those of the other roles begin; with another one than the default, it stands in small letters before the names of users")
	fs.StringVar(&realm.Store, "store", "", "`size` of all that the account stores, as 50GB (default: what the NATS server has)")
	fs.StringVar(&user, "user-name", "", "`name` of the user, of a single one (default: its role, or its node)")
	fs.BoolVar(&realm.OneAccount, "one-account", false, "put all roles into one account: faster, but anyone with the password of a worker or an operator can erase the log")
	fs.BoolVar(&sharedInbox, "shared-inbox", false, "let all users have their answers in _INBOX, where each can read those of the others")
	o.Flags(c, "conf", "table", "json")
	c.RunE = func(*cobra.Command, []string) error {
		if o.Form.Value == "table" {
			_, err := fmt.Fprint(a.Out, rights.Writers())
			return err
		}
		users, err := usersFor(names, nodes)
		if err != nil {
			return term.MisuseOf(err)
		}
		if err := bindTo(users, queues, selectors); err != nil {
			return term.MisuseOf(err)
		}
		for i := range users {
			users[i].Name = realm.UserName(users[i].Name)
		}
		if user != "" {
			if len(users) != 1 {
				return term.MisuseOf(fmt.Errorf("--user-name names one user, and these are %d: choose one with --role, and --node", len(users)))
			}
			users[0].Name = user
		}
		for i := range users {
			if sharedInbox {
				users[i].Inbox = "_INBOX"
			}
		}
		realm.Users = users
		if o.JSON() {
			accounts, err := realm.Accounts()
			if err != nil {
				return term.MisuseOf(err)
			}
			return a.WriteJSON(accounts)
		}
		block, err := rights.RealmConfig(realm)
		if err != nil {
			return term.MisuseOf(err)
		}
		_, err = fmt.Fprint(a.Out, block)
		return err
	}
	return c
}

// usersFor returns a user for each role, and for each node.
func usersFor(names, nodes []string) ([]rights.User, error) {
	if len(names) == 0 {
		for _, r := range rights.All() {
			if r != rights.Worker || len(nodes) > 0 {
				names = append(names, string(r))
			}
		}
	}
	if len(nodes) > 0 && !slices.Contains(names, string(rights.Worker)) {
		return nil, errors.New("--node names nodes of workers: leave it out, or add --role worker")
	}
	var users []rights.User
	for _, r := range names {
		if r != string(rights.Worker) {
			users = append(users, rights.User{Name: r, Role: rights.Role(r)})
			continue
		}
		if len(nodes) == 0 {
			return nil, errors.New("each worker has a user of its own: name its node with --node, as its --name does")
		}
		for _, n := range nodes {
			users = append(users, rights.User{Name: n, Role: rights.Worker, Node: node.ID(n)})
		}
	}
	return users, nil
}

// bindTo binds workers to the queues that --queue names, and to what --selector says.
func bindTo(users []rights.User, queues, selectors []string) error {
	var needs []placement.Selector
	for _, text := range selectors {
		s, err := placement.ParseSelector(text)
		if err != nil {
			return err
		}
		needs = append(needs, s)
	}
	if len(needs) > 0 && len(queues) == 0 {
		return errors.New("--selector is for workers of certain queues: say which with --queue; others get whatever their labels fit")
	}
	for _, text := range queues {
		of, queue, one := strings.Cut(text, "=")
		if !one {
			of, queue = "", text
		}
		found := false
		for i := range users {
			u := &users[i]
			if u.Role == rights.Worker && (!one || string(u.Node) == of) {
				u.Queues, u.Selectors, found = append(u.Queues, queue), needs, true
			}
		}
		if !found {
			return fmt.Errorf("--queue %s: there is no such worker; name its node with --node", text)
		}
	}
	return nil
}
