// Package rights holds tests of one promise: no caller gets more than its rights allow: the rights
// of each role, secrets, users, and what strangers write, ask for or erase.
package rights
