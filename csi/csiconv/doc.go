// Package csiconv translates between CSI's messages and the types of fsm: each type in
// one place, with its inverse next to it where both directions are needed. It is pure: it
// knows no transport, calls no cluster and decides nothing but whether a message is
// well-formed. Rejections are fsm.Invalid unless a function says otherwise.
package csiconv
