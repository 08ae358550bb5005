package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// serve is the agent in a guest.
func serve(address string) error {
	jobs := newJobs()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ping", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("POST /exec", execute)
	mux.HandleFunc("POST /jobs", jobs.start)
	mux.HandleFunc("GET /jobs/{name}", jobs.wait)
	mux.HandleFunc("POST /jobs/{name}/signal", jobs.signal)
	mux.HandleFunc("PUT /file", putFile)
	mux.HandleFunc("GET /file", getFile)
	mux.HandleFunc("GET /stream", stream)
	mux.HandleFunc("POST /stop", powerOff)
	server := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: time.Minute}
	return server.ListenAndServe()
}

func writeError(w http.ResponseWriter, err error) {
	http.Error(w, err.Error(), http.StatusInternalServerError)
}

// powerOff answers first, because no answer can be sent after the power-off.
func powerOff(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprintln(w, "ok")
	go func() {
		synced := make(chan struct{})
		go func() {
			unix.Sync()
			close(synced)
		}()
		select {
		case <-synced:
		case <-time.After(10 * time.Second): // a frozen device keeps sync in the kernel
		}
		if err := unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF); err != nil {
			fmt.Fprintln(os.Stderr, "power off:", err)
		}
	}()
}

func putFile(w http.ResponseWriter, r *http.Request) {
	mode, err := strconv.ParseUint(r.URL.Query().Get("mode"), 8, 12)
	if err != nil {
		writeError(w, err)
		return
	}
	if err := writeFile(r.URL.Query().Get("path"), os.FileMode(mode), r); err != nil {
		writeError(w, err)
	}
}

func writeFile(path string, mode os.FileMode, r *http.Request) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // closed below where it counts
	if _, err := f.ReadFrom(r.Body); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), strings.TrimSuffix(f.Name(), ".new"))
}

func getFile(w http.ResponseWriter, r *http.Request) {
	text, err := os.ReadFile(r.URL.Query().Get("path"))
	if errors.Is(err, fs.ErrNotExist) {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	if err != nil {
		writeError(w, err)
		return
	}
	_, _ = w.Write(text) // the caller may have disconnected
}
