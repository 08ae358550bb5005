package fsm

// packedAfter is the UUID of an id in 16 bytes, nil for an empty one.
func packedAfter(prefix, id string) []byte {
	u, ok := uuidAfter(prefix, id)
	if !ok {
		return nil
	}
	b := u.packed()
	return b[:]
}

// idFrom is the id of 16 bytes; empty for none, where that is allowed.
func idFrom(prefix string, packed []byte, optional bool, err *error) string {
	u, ok := unpackUUID(packed)
	if ok {
		return prefix + u.text()
	}
	if len(packed) != 0 || !optional {
		*err = errForm
	}
	return ""
}

func volumeIDFrom(packed []byte, err *error) VolumeID {
	u, ok := unpackUUID(packed)
	if !ok {
		*err = errForm
		return ""
	}
	return volumeIDFromUUID(u)
}

// enumFrom refuses a number that is not in 1 to highest.
func enumFrom(n, highest uint32, err *error) uint8 {
	if n == 0 || n > highest {
		*err = errForm
		return 0
	}
	return uint8(n)
}
