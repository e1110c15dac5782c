package jet

import (
	"fmt"
	"slices"
	"strings"

	"millrace/node"
	"millrace/task"
)

// Role is what a user of the NATS server is there for. It decides what the user may
// publish and what it may subscribe to.
type Role string

// The roles. They keep users from mistakes and from what is none of theirs; they do not part
// users who distrust each other, see docs/operations.md.
const (
	// RoleServer is a process `millrace server`. It makes the streams, so one has to
	// start before anybody else can work.
	RoleServer Role = "server"
	// RoleWorker is one worker: a user of its own for each node.
	RoleWorker Role = "worker"
	// RoleClient is the command line, and programs that use millrace/client.
	RoleClient Role = "client"
	// RoleAsks is a program that only sends requests to the service. The service grants
	// all of them, so this role administers Millrace.
	RoleAsks Role = "asks"
)

// Roles are all roles, in the order in which they are shown.
func Roles() []Role { return []Role{RoleServer, RoleWorker, RoleClient, RoleAsks} }

// about says in a line who has the role.
func (r Role) about() string {
	switch r {
	case RoleServer:
		return "A `millrace server`: it makes the streams, reads the log and keeps the deadlines."
	case RoleWorker:
		return "The worker of one node."
	case RoleClient:
		return "Whoever uses the command line, or a program with millrace/client."
	case RoleAsks:
		return "A program that only asks the service. It may ask for everything: it is an administrator."
	}
	return ""
}

// User is a user of the NATS server.
type User struct {
	Name string
	Role Role
	// Node is the node of a worker, and of nobody else.
	Node node.ID
	// Inbox is what the subjects of the user's answers begin with. Default: [DefaultInbox] of
	// the name, which nobody else may listen to. With "_INBOX" all users share theirs, and
	// each can read what any other is answered.
	Inbox string
}

// DefaultInbox is the prefix of the inboxes of a user, as --inbox-prefix takes it.
func DefaultInbox(user string) string { return "_INBOX_" + user }

// Right is a group of subjects, and why a role needs them.
type Right struct {
	Subjects []string `json:"subjects"`
	Why      string   `json:"why"`
}

// Rights are what a user may do.
type Rights struct {
	Publish   []Right `json:"publish"`
	Subscribe []Right `json:"subscribe"`
	// Responds is whether the user may answer what it is asked, wherever the answer goes.
	Responds bool `json:"allow_responses,omitempty"`
}

// grant is a line of the table of rights.
type grant struct {
	roles     []Role
	why       string
	publish   []string
	subscribe []string
}

// ownNode stands for the worker's node in the table of rights, and ownInbox for the
// user's prefix of inboxes.
const (
	ownNode  = "{node}"
	ownInbox = "{inbox}"
)

var (
	servers = []Role{RoleServer}
	workers = []Role{RoleWorker}
	clients = []Role{RoleClient}
	writers = []Role{RoleWorker, RoleClient} // of facts, beside the server
)

// The API of JetStream, by subject.
const (
	apiInfo       = "$JS.API.STREAM.INFO."
	apiGet        = "$JS.API.STREAM.MSG.GET."
	apiDirect     = "$JS.API.DIRECT.GET."
	apiPurge      = "$JS.API.STREAM.PURGE."
	apiErase      = "$JS.API.STREAM.MSG.DELETE."
	apiNames      = "$JS.API.CONSUMER.NAMES."
	apiConsumer   = "$JS.API.CONSUMER.INFO."
	apiMake       = "$JS.API.CONSUMER.CREATE."
	apiNext       = "$JS.API.CONSUMER.MSG.NEXT."
	apiDrop       = "$JS.API.CONSUMER.DELETE."
	apiPause      = "$JS.API.CONSUMER.PAUSE."
	deadAdvisory  = "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES." + LogStream + ".*"
	bucketSubject = "$KV."
	bucketStream  = "KV_"
	serviceAsked  = "mr.api.>"
)

// reads are the requests by which a stream is read through a consumer of one's own.
func reads(stream string) []string {
	return []string{apiMake + stream + ".>", apiConsumer + stream + ".*", apiNext + stream + ".*", apiDrop + stream + ".*"}
}

// rights is the table of rights: each subject that a role uses, with the reason. Whoever publishes
// or subscribes to a new one adds it here; TestScriptsByRole in integration runs every script
// under these rights and fails on each that is missing.
var rights = []grant{
	{servers, "it makes and keeps the streams, and writes every kind of fact",
		[]string{"mr.>", bucketSubject + JobsBucket + ".>", bucketSubject + SchedulesBucket + ".>", bucketSubject + FileRefs + ".>",
			bucketSubject + SelectorsBucket + ".*", bucketSubject + NodesBucket + ".*", "$JS.API.>", "$JS.ACK.>"},
		[]string{"mr.>", bucketSubject + SelectorsBucket + ".>"}},
	{servers, "it answers requests to the service, and whoever looks for services", nil, []string{"$SRV.>"}},
	{servers, "it hears of offers that were handed out too often", nil, []string{deadAdvisory}},

	{writers, "what becomes of tasks", []string{chainPrefix + "*"}, nil},
	{workers, "to see that the log takes messages", []string{logProbe}, nil},
	{writers, "births and offers, of any queue: a task may make others",
		[]string{queuePrefix + "*.*.*", holdPrefix + "*", timerPrefix + "*"}, nil},
	{writers, "unique keys, and breakers", []string{keyPrefix + "*", breakPrefix + "*"}, nil},
	{writers, "what a selector stands for, and new lanes of queues",
		[]string{bucketSubject + SelectorsBucket + ".*", laneWordPrefix + "*.*.*", lanesPrefix + "*"}, nil},
	{writers, "words to nodes that something has happened to a task", []string{hintPrefix + "*"}, nil},

	{workers, "the facts and the heartbeat of its node",
		[]string{nodePrefix + ownNode, bucketSubject + NodesBucket + "." + ownNode}, []string{nodePrefix + ownNode}},
	{workers, "what tasks print and produce, how they stand, and where they ran",
		[]string{outputPrefix + "*", dataPrefix + "*", livePrefix + "*", checkpointPrefix + "*", ranPrefix + "*"}, nil},
	{workers, "what is said to its node, to queues and of selectors", nil,
		[]string{hintPrefix + ownNode, pingPrefix + ownNode, lanesPrefix + "*", bucketSubject + SelectorsBucket + ".>"}},
	{workers, "artifacts", []string{bucketSubject + FileRefs + "." + artifactKey + ">"}, nil},

	{clients, "orders to nodes, and what is left of those that are retired",
		[]string{nodePrefix + "*", pingPrefix + "*", bucketSubject + NodesBucket + ".*"}, nil},
	{clients, "definitions of jobs and schedules, with their timers",
		[]string{bucketSubject + JobsBucket + ".*", jobPrefix + "*", bucketSubject + SchedulesBucket + ".*", schedPrefix + "*", cronPrefix + "*"}, nil},
	{clients, "words about queues, and dead letters that are dismissed", []string{statePrefix + "*", deadPrefix + "*"}, nil},
	{clients, "to wait for tasks and nodes", nil, []string{chainPrefix + "*", nodePrefix + "*", livePrefix + "*"}},
	{clients, "names of bundles, and the removal of files that nothing needs",
		[]string{bucketSubject + FileRefs + ".>", sweepSubject, apiErase + FilesStream}, nil},

	{writers, "contents of files", []string{chunkPrefix + "*", versionPrefix + "*", protectPrefix + "*", damagedPrefix + "*"}, nil},
	{[]Role{RoleClient, RoleAsks}, "requests to the service", []string{serviceAsked}, nil},

	{writers, "to read what is stored", []string{apiInfo + "*", apiGet + "*", apiDirect + ">"}, nil},
	{writers, "to find the lanes of queues, and to have them paused and limited as operators say",
		[]string{apiNames + LogStream, apiPause + LogStream + ".*"}, nil},
	{workers, "consumers of queues, of their lanes, of selectors and of the node itself",
		[]string{apiMake + LogStream + ".*." + queuePrefix + ">", apiConsumer + LogStream + ".*", apiDrop + LogStream + ".*"}, nil},
	{workers, "offers, and their acknowledgements",
		[]string{apiNext + LogStream + ".*", "$JS.ACK." + LogStream + ".>", "$JS.ACK.*.*." + LogStream + ".>"}, nil},
	{writers, "to read output and records", slices.Concat(reads(OutputStream), reads(DataStream)), nil},
	{clients, "to read the log, to make lanes of queues, and to list files and definitions",
		slices.Concat(reads(LogStream), reads(FilesStream), reads(bucketStream+JobsBucket), reads(bucketStream+SchedulesBucket), reads(bucketStream+FileRefs)), nil},
	{writers, "timers of tasks that are cancelled", []string{apiPurge + LogStream}, nil},

	{Roles(), "answers to its own requests", nil, []string{ownInbox + ".>"}},
}

// Validate says what is wrong with a user, if anything.
func (u User) Validate() error {
	if !slices.Contains(Roles(), u.Role) {
		return fmt.Errorf("there is no role %q; want %s", u.Role, roleNames())
	}
	if err := task.ValidName("user", u.Name); err != nil {
		return err
	}
	if (u.Role == RoleWorker) != (u.Node != "") {
		return fmt.Errorf("user %s: a worker has a node, and nobody else does", u.Name)
	}
	if u.Node != "" {
		return u.Node.Validate()
	}
	return nil
}

func roleNames() string {
	var names []string
	for _, r := range Roles() {
		names = append(names, string(r))
	}
	return strings.Join(names, ", ")
}

// inbox is the prefix of the user's inboxes.
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
	own := strings.NewReplacer(ownNode, string(u.Node), ownInbox, u.inbox())
	granted := Rights{Publish: []Right{}, Subscribe: []Right{}, Responds: u.Role == RoleServer || u.Role == RoleWorker}
	add := func(to *[]Right, subjects []string, why string) {
		if len(subjects) == 0 {
			return
		}
		r := Right{Why: why}
		for _, s := range subjects {
			r.Subjects = append(r.Subjects, own.Replace(s))
		}
		*to = append(*to, r)
	}
	for _, g := range rights {
		if slices.Contains(g.roles, u.Role) {
			add(&granted.Publish, g.publish, g.why)
			add(&granted.Subscribe, g.subscribe, g.why)
		}
	}
	return granted, nil
}
