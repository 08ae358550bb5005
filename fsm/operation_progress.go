package fsm

// noReason is the Reason of a rejection that only says that a host failed and gave none: callers
// are told of an internal error. No command is rejected with it.
const noReason Reason = 0

// rejection is why the operation failed, with the reason that the host gave. Where it gave none
// the rejection has noReason.
func (o *Operation) rejection(what string) *Rejection {
	return Reject(o.Reason, "%s: %s", what, o.LastError)
}

// failedRemoval says that a reachable host failed to remove something, nil while it is at work.
func (o *Operation) failedRemoval(what string, node NodeID) *Rejection {
	if o == nil || o.State != OpFailed {
		return nil
	}
	return Reject(noReason, "delete %s: node %s failed to remove it: %s; retry %s once this is mended", what, node, o.LastError, o.ID)
}
