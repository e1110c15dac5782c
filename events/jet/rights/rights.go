package rights

import (
	"fmt"
	"slices"
	"strings"

	"millrace/events/jet/names"
	"millrace/task/node"
	"millrace/task/placement"
	"millrace/task/value"
)

// Role is the purpose of a user of the NATS server. It decides what the user may publish and
// subscribe to.
type Role string

// The roles. docs/permissions.md says what each is trusted with.
const (
	// Server is a process `millrace server`. It makes the streams, so one must start before any
	// other role can work.
	Server Role = "server"
	// Worker is one worker: a user of its own for each node.
	Worker Role = "worker"
	// Submitter makes tasks through the service: it writes nothing itself, so that the service
	// knows and records the submitter, and it changes no existing task.
	Submitter Role = "submitter"
	// Viewer sees everything and changes nothing.
	Viewer Role = "viewer"
	// Operator is the command line, and programs that use millrace/client. It writes most facts
	// itself, and may ask the service for everything.
	Operator Role = "operator"
	// Pinger is the holder of a token for HTTP that says how a monitored program is, and changes nothing else. No
	// user of the NATS server has this role.
	Pinger Role = "pinger"
)

// All returns all roles, in the order in which they are shown.
func All() []Role {
	return []Role{Server, Worker, Submitter, Viewer, Operator}
}

// Asking returns the roles that may use the service.
func Asking() []Role {
	return append(slices.DeleteFunc(All(), func(r Role) bool { return len(granted(r, Reading, Submitting, Operating)) == 0 }), Pinger)
}

// about describes the users of a role in a line.
func (r Role) about() string {
	switch r {
	case Server:
		return "A `millrace server`: it makes the streams, reads the log and keeps the deadlines."
	case Worker:
		return "The worker of one node."
	case Submitter:
		return "A program that submits tasks, and asks about those whose ids it has."
	case Viewer:
		return "A reader: it may look at everything, and changes nothing."
	case Operator:
		return "A user of the command line, or a program with millrace/client."
	}
	return ""
}

// User is a user of the NATS server.
type User struct {
	Name string
	Role Role
	// Node is the node of a worker; other roles have none.
	Node node.ID
	// Queues are those that a worker serves. It may touch their consumers and that of its node, and no
	// other consumer of offers. None: those of all queues, selectors and nodes.
	Queues []string
	// Selectors are what tasks in these queues may ask of nodes that the worker serves, too.
	Selectors []placement.Selector
	// Inbox begins the subjects of the user's answers. Default: [DefaultInbox] of the name, to
	// which no other user may subscribe. With "_INBOX" all users share one prefix, and each can
	// read the others' answers.
	Inbox string
}

// DefaultInbox is the prefix of the inboxes of a user, as --inbox-prefix takes it.
func DefaultInbox(user string) string { return "_INBOX_" + user }

// Right is a group of subjects, and why a role needs them.
type Right struct {
	Subjects []string `json:"subjects"`
	Why      string   `json:"why"`
}

// Rights are what a user may publish and subscribe to.
type Rights struct {
	Publish   []Right `json:"publish"`
	Subscribe []Right `json:"subscribe"`
	// Deny has subjects to which the user may not publish, although Publish covers them.
	Deny []Right `json:"deny,omitempty"`
	// Responds tells whether the user may answer requests, wherever the answer goes.
	Responds bool `json:"allow_responses,omitempty"`
}

// grant is a line of the table of rights.
type grant struct {
	roles     []Role
	why       string
	publish   []string
	subscribe []string
}

// denied are subjects to which none but servers may publish, although their other rights cover
// them. A consumer sends to any subject, with the rights of the NATS server. The log takes for
// timers what a consumer of this name sends to [names.FiredSubject], whatever its stream: messages
// of another one would end up in the log, and the log would skip all timers below their sequences.
//
// The schedulers share a consumer, which no other role needs.
var denied = []Right{{
	Subjects: []string{names.APIMake + "*." + names.FiredConsumer, names.APIMake + "*." + names.FiredConsumer + ".>"},
	Why:      "a consumer of this name would speak for the timers",
}, {
	Subjects: []string{
		names.APIMake + names.LogStream + "." + names.FireConsumer, names.APIMake + names.LogStream + "." + names.FireConsumer + ".>",
		names.APIDrop + names.LogStream + "." + names.FireConsumer, names.APIPause + names.LogStream + "." + names.FireConsumer,
		names.APINext + names.LogStream + "." + names.FireConsumer,
		"$JS.ACK." + names.LogStream + "." + names.FireConsumer + ".>", "$JS.ACK.*.*." + names.LogStream + "." + names.FireConsumer + ".>",
	},
	Why: "the consumer of the schedulers",
}}

// Placeholders for a user's own node, inbox prefix and name in the table of rights.
const (
	ownNode  = "{node}"
	ownInbox = "{inbox}"
	ownName  = "{user}"
	// A consumer of offers, and what it takes.
	ownConsumer = "{consumer}"
	ownOffers   = "{offers}"
)

var (
	servers    = []Role{Server}
	workers    = []Role{Worker}
	submitters = []Role{Submitter}
	viewers    = []Role{Viewer}
	operators  = []Role{Operator}
	writers    = []Role{Worker, Operator} // of facts, beside the server

)

// everything covers all that Millrace itself publishes, beside JetStream's subjects.
const everything = "mr.>"

// reads are the requests for reading a stream through one's own consumer.
func reads(stream string) []string {
	return []string{names.APIMake + stream + ".>", names.APIConsumer + stream + ".*", names.APINext + stream + ".*", names.APIDrop + stream + ".*"}
}

// asks are the subjects on which a user asks the service for these verbs, under its own name.
func asks(verbs ...Verb) (subjects []string) {
	for _, v := range verbs {
		subjects = append(subjects, v.For(ownName))
	}
	return subjects
}

// rights is the table of rights: each subject that a role uses, with the reason. Code that
// publishes or subscribes to a new subject must add it here; TestScriptsByRole in integration runs
// every script under these rights and fails on each missing one.
var rights = []grant{
	{servers, "it makes and keeps the streams, and writes every kind of fact",
		[]string{everything, names.BucketSubject + names.DefsBucket + ".>",
			names.BucketSubject + names.NodesBucket + ".*", "$JS.API.>", "$JS.ACK.>"},
		[]string{everything, names.BucketSubject + names.DefsBucket + ".>"}},
	{servers, "`millrace backup` and `millrace restore`, which are this user", []string{names.APISaved + ">"}, nil},
	{servers, "an archive in an object store", []string{names.ObjectSubject + ">"}, nil},
	{servers, "it answers requests to the service, and programs that look for services", nil, []string{"$SRV.>"}},
	{servers, "news of offers that were handed out too often, and of the new leader of a consumer",
		nil, []string{names.DeadAdvisory, names.ElectedAdvisory + names.LogStream + ".*"}},

	{servers, "decisions that only a server takes: admissions by limits, planned runs of schedules, copies that were set back, what the log forgets",
		[]string{names.AdmitPrefix + ">", names.TickPrefix + "*", names.CopiesSubject, names.HorizonSubject, names.CarriedPrefix + ">", names.TallyPrefix + "*"}, nil},
	{servers, "that a scheduler runs", []string{names.SchedulersWord}, nil},
	{servers, "when tokens were used", []string{names.UsedPrefix + "*"}, nil},
	{servers, "offers that timers bring; the NATS server writes them", []string{names.FirePrefix + "*", names.DuePrefix + ">", names.FiredSubject}, nil},

	{writers, "facts about tasks", []string{names.ChainPrefix + "*"}, nil},
	{workers, "to check that the log takes messages", []string{names.LogProbe}, nil},
	{writers, "births and offers in any queue: a task may submit others",
		[]string{names.QueuePrefix + "*.*.*", names.HoldPrefix + "*"}, nil},
	{writers, "to check that the log takes what timers bring", []string{names.APIConsumer + names.TimerStream + "." + names.FiredConsumer}, nil},
	{writers, "timers, which only say when a task is due; it may set and remove those of any task",
		[]string{names.TimerPrefix + "*", names.APIPurge + names.TimerStream}, nil},
	{writers, "unique keys, and breakers", []string{names.KeyPrefix + "*", names.BreakPrefix + "*"}, nil},
	{writers, "declarations of selectors and of new lanes",
		[]string{names.SelectorPrefix + "*", names.LaneWordPrefix + "*.*.*", names.LanesPrefix + "*"}, nil},
	{writers, "hints to nodes that there is news of them or of a task", []string{names.HintPrefix + "*"}, nil},

	{workers, "the facts and the heartbeat of its node",
		[]string{names.NodePrefix + ownNode, names.BucketSubject + names.NodesBucket + "." + ownNode}, nil},
	{workers, "output, records, progress and checkpoints of tasks, and where tasks ran",
		[]string{names.OutputPrefix + "*", names.DataPrefix + "*", names.LivePrefix + "*", names.CheckpointPrefix + "*", names.RanPrefix + "*"}, nil},
	{workers, "hints and pings to its node, news of lanes and selectors", nil,
		[]string{names.HintPrefix + ownNode, names.PingPrefix + ownNode, names.LanesPrefix + "*", names.SelectorPrefix + "*"}},
	{workers, "artifacts, and large results of steps", []string{names.LeftPrefix + "*.*", names.StepPrefix + "*.*.*"}, nil},

	{operators, "orders to nodes, and the removal of what retired nodes left",
		[]string{names.NodePrefix + "*", names.PingPrefix + "*", names.BucketSubject + names.NodesBucket + ".*"}, nil},
	{operators, "definitions, with the timers of schedules", []string{names.DefPrefix + "*.*", names.CronPrefix + "*"}, nil},
	{operators, "settings of queues, and dismissals of dead letters", []string{names.StatePrefix + "*", names.DeadPrefix + "*"}, nil},
	{operators, "to wait for tasks and nodes", nil, []string{names.ChainPrefix + "*", names.NodePrefix + "*", names.LivePrefix + "*"}},
	{operators, "the removal of files that no task and no name needs", []string{names.SweepSubject, names.APIErase + names.FilesStream}, nil},

	{writers, "contents of files", []string{names.ChunkPrefix + "*", names.VersionPrefix + "*", names.ProtectPrefix + "*", names.DamagedPrefix + "*"}, nil},
	{submitters, "to submit tasks through the service", asks(granted(Submitter, Submitting)...), nil},
	{submitters, "to ask about a task whose id it has, and whether the log takes messages", asks(granted(Submitter, Reading)...), nil},
	{submitters, "to wait for tasks that it has submitted, to ask why they wait, and to read what they print", asks(granted(Submitter, Owning)...), nil},
	{[]Role{Submitter, Viewer}, "to approve or refuse what it is asked by name", asks(granted(Viewer, Answering)...), nil},
	{viewers, "requests to the service that change nothing", asks(granted(Viewer, Reading)...), nil},
	{operators, "all requests to the service", asks(">"), nil},

	{writers, "to read what is stored", []string{names.APIInfo + "*", names.APIGet + "*", names.APIDirect + ">"}, nil},
	{writers, "to pause and limit the lanes of queues as operators say", []string{names.APIPause + names.LogStream + "." + ownConsumer}, nil},
	{workers, "consumers of queues, of their lanes, of selectors and of the node itself",
		[]string{names.APIMake + names.LogStream + "." + ownConsumer + "." + ownOffers, names.APIConsumer + names.LogStream + ".*", names.APIDrop + names.LogStream + "." + ownConsumer}, nil},
	{workers, "offers, their acknowledgements, and news of the new leader of a consumer",
		[]string{names.APINext + names.LogStream + "." + ownConsumer, "$JS.ACK." + names.LogStream + "." + ownConsumer + ".>", "$JS.ACK.*.*." + names.LogStream + "." + ownConsumer + ".>"}, []string{names.ElectedAdvisory + names.LogStream + ".*"}},
	{writers, "to read output and records", slices.Concat(reads(names.OutputStream), reads(names.DataStream)), nil},
	{operators, "to read the log, to make lanes of queues, and to list files and copies of definitions",
		slices.Concat(reads(names.LogStream), reads(names.FilesStream), reads(names.BucketStream+names.DefsBucket)), nil},

	{All(), "answers to its own requests", nil, []string{ownInbox + ".>"}},
}

// Validate returns an error that says what is wrong with a user.
func (u User) Validate() error {
	if !slices.Contains(All(), u.Role) {
		return fmt.Errorf("there is no role %q; want %s", u.Role, Listed(All()))
	}
	valid := ValidCaller
	if u.Role == Server || u.Role == Worker { // they ask for nothing
		valid = func(name string) error { return value.ValidName("user", name) }
	}
	if err := valid(u.Name); err != nil {
		return err
	}
	if (u.Role == Worker) != (u.Node != "") {
		return fmt.Errorf("user %s: a worker has a node, and no other role has one", u.Name)
	}
	if u.Role != Worker && len(u.Queues) > 0 || len(u.Queues) == 0 && len(u.Selectors) > 0 {
		return fmt.Errorf("user %s: only a worker serves queues, and selectors are of tasks in queues", u.Name)
	}
	for _, q := range u.Queues {
		if err := value.ValidName("queue", q); err != nil {
			return fmt.Errorf("user %s: %w", u.Name, err)
		}
	}
	for _, s := range u.Selectors {
		if err := s.Validate(); err != nil {
			return fmt.Errorf("user %s: %w", u.Name, err)
		}
	}
	if u.Node != "" {
		return u.Node.Validate()
	}
	return nil
}

// consumer is a consumer of offers, and the filter with which it is made.
type consumer struct{ name, offers string }

// anyConsumer is the one of a user who serves no certain queues.
var anyConsumer = consumer{"*", names.QueuePrefix + ">"}

// consumers are those that the user may touch. A name is one token, and permissions know no part of a
// token; so each lane that a queue may have is named.
func (u User) consumers() []consumer {
	if len(u.Queues) == 0 {
		return []consumer{anyConsumer}
	}
	own := placement.Lane{Queue: u.Node.Queue(), Priority: placement.DefaultPriority}
	all := []consumer{{names.NodeConsumer(u.Node), names.LaneFilter(own)}}
	queues := slices.Clone(u.Queues)
	for _, q := range u.Queues {
		for _, s := range u.Selectors {
			queues = append(queues, placement.SelectorQueue(q, s))
		}
	}
	for _, q := range queues {
		for priority := placement.MinPriority; priority <= placement.MaxPriority; priority++ {
			for number := range placement.Lanes + 1 {
				l := placement.Lane{Queue: q, Priority: priority, Number: number}
				all = append(all, consumer{names.LaneConsumer(l), names.LaneFilter(l)})
			}
		}
	}
	return all
}

// named are the subjects that a subject with placeholders for consumers stands for.
func named(subject string, consumers []consumer) []string {
	if !strings.Contains(subject, ownConsumer) {
		return []string{subject}
	}
	var subjects []string
	for _, c := range consumers {
		subjects = append(subjects, strings.NewReplacer(ownConsumer, c.name, ownOffers, c.offers).Replace(subject))
	}
	return subjects
}

// inbox returns the prefix of the user's inboxes.
func (u User) inbox() string {
	if u.Inbox != "" {
		return u.Inbox
	}
	return DefaultInbox(u.Name)
}

// Rights returns what the table of rights grants a user.
func (u User) Rights() (Rights, error) {
	if err := u.Validate(); err != nil {
		return Rights{}, err
	}
	own := strings.NewReplacer(ownNode, string(u.Node), ownInbox, u.inbox(), ownName, u.Name)
	consumers := u.consumers()
	granted := Rights{Publish: []Right{}, Subscribe: []Right{}, Responds: u.Role == Server || u.Role == Worker}
	add := func(to *[]Right, subjects []string, why string) {
		if len(subjects) == 0 {
			return
		}
		r := Right{Why: why}
		for _, s := range subjects {
			r.Subjects = append(r.Subjects, named(own.Replace(s), consumers)...)
		}
		*to = append(*to, r)
	}
	for _, g := range rights {
		if slices.Contains(g.roles, u.Role) {
			add(&granted.Publish, g.publish, g.why)
			add(&granted.Subscribe, g.subscribe, g.why)
		}
	}
	makes := func(r Right) bool {
		return slices.ContainsFunc(r.Subjects, func(s string) bool { return strings.HasPrefix(s, names.APIMake) })
	}
	if u.Role != Server && slices.ContainsFunc(granted.Publish, makes) {
		granted.Deny = denied
	}
	return granted, nil
}
