package main

import (
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

// stream connects the caller with a socket of the guest and copies in both directions.
func stream(w http.ResponseWriter, r *http.Request) {
	far, err := net.DialTimeout(r.URL.Query().Get("network"), r.URL.Query().Get("address"), 5*time.Second)
	if err != nil {
		writeError(w, err)
		return
	}
	defer func() { _ = far.Close() }() // both ends are done
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		writeError(w, errors.New("this connection cannot become a stream"))
		return
	}
	near, buffered, err := hijacker.Hijack()
	if err != nil {
		return // the connection is gone
	}
	defer func() { _ = near.Close() }() // both ends are done
	if _, err := io.WriteString(near, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: stream\r\n\r\n"); err != nil {
		return
	}
	ended := make(chan struct{}, 2)
	pipe := func(to io.Writer, from io.Reader) {
		_, _ = io.Copy(to, from) // its end is the end of the stream
		ended <- struct{}{}
	}
	go pipe(far, buffered)
	go pipe(near, far)
	<-ended
}
