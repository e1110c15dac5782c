package rights

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/events/jet/names"
	"millrace/task/node"
	"millrace/task/value"
)

// A realm has an account of the NATS server for each role. Inside one account, the permissions of a
// user are no wall: a client that asks JetStream for something names a subject for the answer, and
// the NATS server sends it there with its own rights. An acknowledgement with the reply subject
// $JS.API.STREAM.DELETE.MR_LOG deletes the log. Across accounts, the answer ends in the account of
// the asking client. So the streams lie in the account of the servers; the other roles import from
// there what the table of rights grants them, and can reach nothing else.

// Realm is one installation of Millrace on a NATS server: an account per role, with their users.
type Realm struct {
	// Name is the name of the account with the streams; the names of the other accounts begin with
	// it.
	Name  string
	Users []User
	// Store is how much its streams may hold, in the notation of a NATS server's configuration
	// ("50GB"). Default: the server's limit.
	Store string
	// OneAccount puts all roles into one account, without the wall between them.
	OneAccount bool
}

// DefaultRealm is the name of the only realm of a NATS server.
const DefaultRealm = "MILLRACE"

// Validate returns an error that says what is wrong with a realm. [User.Rights] checks its users.
func (r *Realm) Validate() error {
	if r.Store != "" && !sizeOf().MatchString(r.Store) {
		return fmt.Errorf("the size %q: want a number and KB, MB, GB or TB", r.Store)
	}
	return value.ValidName("account", r.Name)
}

// UserName is the default name of a user of a realm. No two users of a NATS server may share a
// name, so outside the default realm the realm's name comes first.
func (r *Realm) UserName(name string) string {
	if r.Name == DefaultRealm {
		return name
	}
	return strings.ToLower(r.Name) + "-" + name
}

// AccountName is the name of the account of a role.
func (r *Realm) AccountName(role Role) string {
	if role == Server || r.OneAccount {
		return r.Name
	}
	return r.Name + "_" + strings.ToUpper(string(role))
}

// Account is an account of the NATS server, with what it exports to the others of its realm and
// imports from them.
type Account struct {
	Name string `json:"account"`
	// JetStream tells whether it has streams, and Store how much they may hold.
	JetStream bool          `json:"jetstream"`
	Store     string        `json:"store,omitempty"`
	Users     []AccountUser `json:"users"`
	Exports   []Export      `json:"exports,omitempty"`
	Imports   []Import      `json:"imports,omitempty"`
}

// AccountUser is a user with its rights.
type AccountUser struct {
	Name  string  `json:"user"`
	Role  Role    `json:"role"`
	Node  node.ID `json:"node,omitempty"`
	Inbox string  `json:"inbox_prefix"`
	Rights
}

// Export is a subject that other accounts may import.
type Export struct {
	Subject string `json:"subject"`
	// Service is set if the importing accounts publish to it and get answers; else they subscribe
	// to it.
	Service bool     `json:"service"`
	To      []string `json:"to"`
	// Streamed is set if a request has several answers. The NATS server forgets where they go when
	// none has come for [streamedFor].
	Streamed bool `json:"streamed,omitempty"`
}

// Import is a subject that another account exports.
type Import struct {
	Subject string `json:"subject"`
	Service bool   `json:"service"`
	From    string `json:"from"`
}

// streamedFor is longer than any wait for one of several answers.
const streamedFor = time.Minute

// apiAccount is a subject that an account without JetStream imports, so that the NATS server knows
// that its JetStream is another account's. Otherwise the server would itself answer all requests
// with an error.
const apiAccount = "$JS.API.INFO"

// Accounts returns the accounts of a realm, for the roles that its users have. The error says what
// is wrong with the realm or with a user.
func (r *Realm) Accounts() ([]*Account, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	var accounts []*Account
	at := map[string]*Account{}
	users := slices.Clone(r.Users)
	slices.SortStableFunc(users, func(a, b User) int { return slices.Index(All(), a.Role) - slices.Index(All(), b.Role) })
	for _, u := range users {
		granted, err := u.Rights()
		if err != nil {
			return nil, err
		}
		name := r.AccountName(u.Role)
		a := at[name]
		if a == nil {
			a = &Account{Name: name}
			at[name], accounts = a, append(accounts, a)
		}
		a.Users = append(a.Users, AccountUser{u.Name, u.Role, u.Node, u.inbox(), granted})
	}
	if a := at[r.Name]; a != nil {
		a.JetStream, a.Store = true, r.Store
	}
	for _, role := range All() {
		if name := r.AccountName(role); name != r.Name && at[name] != nil {
			r.cross(at, role)
		}
	}
	return accounts, nil
}

// cross makes the account of a role import what the role is granted.
func (r *Realm) cross(at map[string]*Account, role Role) {
	r.share(at, apiAccount, true, Server, role)
	for _, g := range rights {
		if !slices.Contains(g.roles, role) {
			continue
		}
		for _, subject := range g.publish {
			r.share(at, subject, true, answerer(subject), role)
		}
		for _, subject := range g.subscribe {
			if answerer(subject) == role {
				r.share(at, subject, true, role, Server)
				continue
			}
			for _, from := range sayers(subject) {
				if r.AccountName(from) != r.AccountName(role) {
					r.share(at, subject, false, from, role)
				}
			}
		}
	}
}

// answerer returns the role whose users answer messages on a subject.
func answerer(subject string) Role {
	if strings.HasPrefix(subject, names.PingPrefix) {
		return Worker
	}
	return Server
}

// sayers are the roles from whose accounts messages on a subject may come: the servers, whose
// account also has JetStream's messages, and the roles that may publish it. The NATS server passes
// on a user's message to the account of the servers, but no further: a subscriber in a third
// account would not receive it.
func sayers(subject string) []Role {
	from := []Role{Server}
	for _, g := range rights {
		if slices.ContainsFunc(g.publish, func(s string) bool { return anyOf.Replace(s) == anyOf.Replace(subject) }) {
			for _, role := range g.roles {
				if !slices.Contains(from, role) {
					from = append(from, role)
				}
			}
		}
	}
	return from
}

// anyOf replaces a user's own node, name and consumers by wildcards in rights.
var anyOf = strings.NewReplacer(ownNode, "*", ownName, "*", ownConsumer, anyConsumer.name, ownOffers, anyConsumer.offers)

// share makes an account import a subject from another. The account with the streams may be on
// another server, if no server is among the users.
func (r *Realm) share(at map[string]*Account, subject string, service bool, from, to Role) {
	if strings.HasPrefix(subject, ownInbox) {
		return // answers are routed back
	}
	if from != Server && at[r.AccountName(from)] == nil {
		return // the role that would answer or publish has no user
	}
	subject = anyOf.Replace(subject)
	in := Import{subject, service, r.AccountName(from)}
	if a := at[r.AccountName(to)]; a != nil && !slices.Contains(a.Imports, in) {
		a.Imports = append(a.Imports, in)
	}
	a := at[r.AccountName(from)]
	if a == nil {
		return
	}
	i := slices.IndexFunc(a.Exports, func(e Export) bool { return e.Subject == subject && e.Service == service })
	if i < 0 {
		i = len(a.Exports)
		a.Exports = append(a.Exports, Export{Subject: subject, Service: service, Streamed: service && streamed(subject)})
	}
	if e := &a.Exports[i]; !slices.Contains(e.To, r.AccountName(to)) {
		e.To = append(e.To, r.AccountName(to))
	}
}

// streamed tells whether a request on a subject may have several answers.
func streamed(subject string) bool {
	return strings.HasPrefix(subject, names.APINext) || strings.HasPrefix(subject, names.APIDirect)
}
