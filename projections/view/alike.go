package view

import (
	"regexp"
	"strings"
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
