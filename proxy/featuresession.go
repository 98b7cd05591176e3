package proxy

import (
	"time"

	"github.com/sluice-proxy/sluice/proxy/feature"
	"github.com/sluice-proxy/sluice/proxy/silent"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// featureSession implements feature.Session. It has the size of a pointer, so that converting it to the interface
// allocates nothing.
type featureSession struct{ s *session }

func (f featureSession) InBlock() bool { return f.s.inBlock() }
func (f featureSession) First() bool   { return !f.s.t.touched && !f.s.t.executed && !f.s.t.ranLocal }

func (f featureSession) RefusesWrite(st *rewrite.Statement) *wire.Error {
	if at := f.s.position(); !at.ReadOnly() {
		return nil
	}
	return refusesWrite(st, readOnly)
}

func (f featureSession) OptsOut(sql []byte) bool {
	return f.s.optedOut || f.s.t.optsOut || f.s.srv.replays != nil && retry.OptsOut(sql)
}

func (f featureSession) Setting(name string) string {
	value := f.s.settings.InForce.SQL[name]
	for _, change := range f.s.settings.Staged.Changes {
		if change.Name == name {
			value = change.SQL
		}
	}
	return value
}

func (f featureSession) Reading() rewrite.Reading      { return f.s.reading() }
func (f featureSession) Names() (*schema.Names, error) { return f.s.names() }

func (f featureSession) Reply(frames ...[]byte) error { return f.s.tell(frames...) }
func (f featureSession) Flush() error                 { return f.s.flushToClient() }

// NextFrame also ends when a cancel arrives. startWaiting is needed because an earlier nested turn no longer listens
// for cancels.
func (f featureSession) NextFrame() (typ byte, total int, err error) {
	f.s.startWaiting()
	defer f.reads()()
	typ, total, err = f.s.nextFrame()
	if err != nil {
		return 0, 0, err
	}
	err = f.s.stopped()
	f.s.heeded(err)
	return typ, total, err
}

// reads lets cancels end waits for the client until end is called.
func (f featureSession) reads() (end func()) {
	t := f.s.t
	t.featureReads = true
	return func() { t.featureReads = false }
}

func (f featureSession) Whole(total int) ([]byte, error) {
	defer f.reads()()
	return f.s.whole(total)
}

func (f featureSession) Discard(n int) error {
	defer f.reads()()
	return f.s.discard(n)
}

// Payload sets midClient while take runs, so that nested turns know that the unread bytes begin inside a frame.
func (f featureSession) Payload(total int, take func(piece []byte) error) error {
	s := f.s
	s.client.Advance(wire.HeaderLen)
	defer f.reads()()
	defer func() { s.t.midClient = false }()
	for n := total - wire.HeaderLen; n > 0; {
		k := min(n, s.client.Buffered())
		if k == 0 {
			if err := s.fillClient(); err != nil {
				return err
			}
			continue
		}
		piece := s.client.Peek(k)
		s.client.Advance(k)
		n -= k
		s.t.midClient = n > 0
		if err := take(piece); err != nil {
			if isRefusal(err) {
				if derr := s.discard(n); derr != nil {
					return derr
				}
			}
			return err
		}
	}
	return nil
}

func (f featureSession) ProtocolError(e *wire.Error) error { return f.s.notData(e) }

func (f featureSession) Hold(bytes int) error {
	if full := f.s.charge.feature.TrySet(&f.s.account, bytes); full != nil {
		return errMemory(full)
	}
	return nil
}

func (f featureSession) Nested(sql string, how feature.Nested) (feature.Result, error) {
	return f.s.nest(sql, nested{own: silent.New(how.Want), outside: how.Outside, optsOut: how.OptsOut})
}

func (f featureSession) Command(sql string, want silent.Want) (feature.Result, error) {
	end, err := f.s.command(sql, want)
	if end.Err == nil && end.Stopped != nil {
		f.s.t.unheeded, end.Stopped = end.Stopped, nil
	}
	return end, err
}

func (f featureSession) Start()    { f.s.startWaiting() }
func (f featureSession) Finished() { f.s.nothingRuns() }

func (f featureSession) Proceed() error {
	err := f.s.wantsMore()
	f.s.heeded(err)
	return err
}

func (f featureSession) Pause(d time.Duration) error {
	err := f.s.pause(d)
	f.s.heeded(err)
	return err
}
