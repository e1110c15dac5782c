package wording

import (
	"fmt"

	"millrace/history/incident"
)

// Missing describes what is missing.
func Missing(m incident.Missing) string {
	text := m.Section
	if text == incident.SectionFacts.String() {
		text = "events"
	}
	if m.Lines > 0 {
		text = Plural(m.Lines, "line") + " of " + text
	}
	switch {
	case m.After > 0 && m.Before > 0:
		text += fmt.Sprintf(" between #%d and #%d", m.After, m.Before)
	case m.Before > 0:
		text += fmt.Sprintf(" before #%d", m.Before)
	case m.After > 0:
		text += fmt.Sprintf(" after #%d", m.After)
	}
	return text + ": " + m.Why
}
