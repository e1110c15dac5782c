// Package rights holds tests of a promise: nobody gets more than is theirs: the rights of each
// role, secrets, users, and what strangers write, ask for or erase.
package rights
