# ActiveRecord: writers that insert with a generated key, and raise counters that they share.
require "active_record"

url, writers, transactions, counters = ARGV[0], *ARGV[1, 3].map(&:to_i)
$stdout.sync = true
ActiveRecord::Base.establish_connection(url: url, pool: writers)

class Entry < ActiveRecord::Base
  self.table_name = "entry"
end

class Counter < ActiveRecord::Base
  self.table_name = "counter"
end

class Tag < ActiveRecord::Base
  self.table_name = "tag"
  self.primary_key = "name"
end

OUT = Mutex.new

def transaction(label, kind, counter)
  before = "-"
  key = nil
  begin
    ActiveRecord::Base.transaction do
      key = Entry.create!(label: label).id
      if kind == "nested"
        begin
          ActiveRecord::Base.transaction(requires_new: true) { Tag.create!(name: "taken") }
        rescue ActiveRecord::RecordNotUnique
        end
      end
      if kind == "load"
        row = Counter.find(counter)
        before = row.n
        row.update!(n: before + 1)
      else
        Counter.where(id: counter).update_all("n = n + 1")
      end
    end
    line = "committed #{kind} #{key} #{counter} #{before}"
  rescue ActiveRecord::StatementInvalid => e
    result = e.cause.respond_to?(:result) && e.cause.result
    code = result ? result.error_field(PG::Result::PG_DIAG_SQLSTATE) : "-"
    detail = result ? result.error_field(PG::Result::PG_DIAG_MESSAGE_DETAIL) : e.message.lines.first
    line = "refused #{kind} #{code} #{counter} #{before} #{detail}"
  end
  OUT.synchronize { puts line }
end

# What all threads need of the schema is read before they start.
[Entry, Counter, Tag].each(&:columns)
ActiveRecord::Base.connection_pool.release_connection

threads = writers.times.map do |number|
  Thread.new do
    r = Random.new(number)
    number.step(transactions - 1, writers) do |i|
      transaction("e#{i}", %w[add add add load nested].sample(random: r), r.rand(1..counters))
    end
    ActiveRecord::Base.connection_pool.release_connection
  end
end
threads.each(&:join)
