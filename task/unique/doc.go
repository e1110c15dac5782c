// Package unique holds the rules of unique keys: which task has one, and which submission gets it next.
package unique
