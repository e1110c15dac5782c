package view

import (
	"regexp"
	"strings"

	"millrace/task"
	"millrace/task/value"
)

// varies is what differs between two messages of one cause: ids, addresses, numbers and times.
var varies = regexp.MustCompile(`0x[0-9a-fA-F]+|[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}|\b[0-9A-HJKMNP-TV-Z]{26}\b|\b[0-9a-f]{12,}\b|[0-9]+`)

// alikeLength is how much of a message counts, in bytes.
const alikeLength = 300

// Alike is a message without what differs between two failures of one cause, so that a list can put them
// together. Only its first lines count.
func Alike(message string) string {
	if len(message) > alikeLength {
		message = message[:alikeLength]
	}
	return strings.ToValidUTF8(varies.ReplaceAllString(strings.Join(strings.Fields(message), " "), "#"), "")
}

// ended begins the numbers of children behind the failures in the message of a parent.
var ended = regexp.MustCompile(`\); \d+ of \d+ have ended`)

// Flat returns the message of a parent in one plain sentence: the failed grandchild under its own path, "transform/5 failed: …",
// in place of one message within the other. Of several that failed each has its state. Other messages stay as they are.
func Flat(message string) string {
	path := ""
	for rest := message; ; {
		name, inner, nested := strings.Cut(rest, " failed ("+task.Error.String()+"/"+value.Task+": ")
		child, _, failed := strings.Cut(inner, " failed (")
		if !nested || !failed || strings.ContainsAny(name+child, " ,;()") {
			break
		}
		path, rest = path+name+"/", inner
		message = path + rest
	}
	at := ended.FindStringIndex(message)
	if at == nil {
		return message
	}
	message = message[:at[0]+1]
	for n := strings.Count(message, ")") - strings.Count(message, "("); path != "" && n > 0; n-- {
		message = strings.TrimSuffix(message, ")")
	}
	name, rest, failed := strings.Cut(message, " failed (")
	if _, why, says := strings.Cut(rest, ": "); failed && says && !strings.Contains(why, " failed (") && !strings.ContainsAny(name, " ,;()") {
		return name + " failed: " + strings.TrimSuffix(why, ")")
	}
	return message
}
