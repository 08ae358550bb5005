package agent

// parkVolume parks the volume until an unkillable child process is gone: its device must not
// be touched meanwhile.
func (t *table) parkVolume(v *volume, err error) {
	parked := unkillableDone(err)
	if parked == nil {
		return
	}
	t.mu.Lock()
	v.parked = parked
	t.mu.Unlock()
	t.Logger.Error("the volume is parked until a command that hangs in the kernel ends", "volume", v.id, "error", err)
	go func() {
		<-parked
		t.mu.Lock()
		defer t.mu.Unlock()
		v.parked = nil
		v.wakeWaiters()
		t.volumeQueue.add(v.id)
	}()
}

// unkillableDone is closed when all unkillable children that the error names are gone; nil when
// it names none.
func unkillableDone(err error) <-chan struct{} { return allClosed(unkillableChildren(err)) }

// unkillableChildren walks all joined errors: errors.As would stop at the first.
func unkillableChildren(err error) (children []<-chan struct{}) {
	if c, ok := any(err).(interface{ Stuck() <-chan struct{} }); ok && c.Stuck() != nil {
		children = append(children, c.Stuck())
	}
	switch wrapping := any(err).(type) {
	case interface{ Unwrap() error }:
		children = append(children, unkillableChildren(wrapping.Unwrap())...)
	case interface{ Unwrap() []error }:
		for _, part := range wrapping.Unwrap() {
			children = append(children, unkillableChildren(part)...)
		}
	}
	return children
}

// allClosed returns a channel that is closed when all of them are; nil for none.
func allClosed(children []<-chan struct{}) <-chan struct{} {
	switch len(children) {
	case 0:
		return nil
	case 1:
		return children[0]
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for _, child := range children {
			<-child
		}
	}()
	return gone
}
