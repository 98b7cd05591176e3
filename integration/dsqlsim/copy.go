package dsqlsim

// onCopyIn handles CopyInResponse: from now on PostgreSQL reads the client's data, until CopyDone, CopyFail or an
// error. A goroutine passes the data on while the session reads the outcome. The goroutine ends with the copy.
func (s *session) onCopyIn(total int) error {
	if err := s.relayReply(total); err != nil {
		return err
	}
	if err := s.toClient.Flush(); err != nil {
		return err
	}
	// PostgreSQL ignores a Sync or Flush after the COPY, as a part of the copy. So dropSync removes the Sync's pending
	// reply.
	if r := s.replies.first(); r != nil && r.kind == 'E' {
		s.replies.dropSync()
	}
	over := make(chan struct{})
	ended := make(chan error, 1)
	go func() { ended <- s.feedCopyData(over) }()
	err := s.readCopyOutcome(over)
	if feedErr := <-ended; err == nil {
		err = feedErr
	}
	return err
}

// readCopyOutcome reads until PostgreSQL has answered the COPY. It makes feedCopyData end before the client gets the
// answer, because later frames of the client are not data.
func (s *session) readCopyOutcome(over chan<- struct{}) error {
	defer close(over)
	for {
		kind, _, err := s.upstream.peekHeader()
		if err != nil {
			return err
		}
		if kind == 'C' || kind == 'E' {
			return nil // for the session's usual course
		}
		if err := s.handleReply(); err != nil {
			return err
		}
	}
}

// feedCopyData passes the client's frames to PostgreSQL until the data ends or the copy is over. It drops Sync and
// Flush, which have no meaning within a COPY.
func (s *session) feedCopyData(over <-chan struct{}) error {
	for {
		select {
		case <-over:
			return nil
		default:
		}
		f, err := s.peekFrame()
		if err != nil {
			s.link.closeBoth() // PostgreSQL waits for data that will not come
			return err
		}
		switch {
		case f == nil:
			if err := s.awaitCopyData(over); err != nil {
				return err
			}
			continue
		case f.kind == 'H' || f.kind == 'S':
			s.queue.pop()
			continue
		case !isCopyData(f.kind):
			// The client has broken the COPY off. The session handles this frame as soon as the COPY has failed.
			f = &frame{kind: 'f', body: []byte("unexpected message during COPY from stdin\x00")}
		default:
			data := s.queue.pop()
			f = &data
		}
		if err := s.upstream.write(f.kind, f.body); err != nil {
			return err
		}
		if f.kind == 'd' {
			continue
		}
		// A Flush asks PostgreSQL for the outcome, since no frame of the extended protocol has asked yet.
		if err := s.upstream.write('H', nil); err != nil {
			return err
		}
		return s.upstream.flush()
	}
}

// awaitCopyData waits for more of the client's data.
func (s *session) awaitCopyData(over <-chan struct{}) error {
	if err := s.upstream.flush(); err != nil {
		return err
	}
	select {
	case <-s.inbox.arrived:
	case <-over:
	case <-s.link.done:
		return errClosing
	}
	return nil
}

func isCopyData(kind byte) bool { return kind == 'd' || kind == 'c' || kind == 'f' }
