# ActiveRecord, with migrations as the generators of Rails write them.
require "active_record"

PHASE, URL, *sizes = ARGV
BULK, ROWS, WRITERS, TRANSACTIONS = sizes.map(&:to_i)
$stdout.sync = true
ActiveRecord::Base.establish_connection(url: URL, pool: WRITERS + 1)
ActiveRecord::Migration.verbose = false
ActiveRecord::Base.belongs_to_required_by_default = true # as a new Rails application has it

class ApplicationRecord < ActiveRecord::Base
  self.abstract_class = true
end

class Author < ApplicationRecord
  has_many :books, dependent: :destroy
  validates :name, presence: true
end

class Book < ApplicationRecord
  belongs_to :author
end

class Item < ApplicationRecord
end

class Counter < ApplicationRecord
end

class Entry < ApplicationRecord
  belongs_to :counter
end

# SQLSTATE and message, as the driver below all layers has them.
def failure(e)
  while e
    return e.result.error_field(PG::Result::PG_DIAG_SQLSTATE), e.result.error_field(PG::Result::PG_DIAG_MESSAGE_PRIMARY) if e.respond_to?(:result) && e.result
    last, e = e, e.cause
  end
  ["-", "#{last.class}: #{last.message}"]
end

def step(name)
  values = yield
  puts "step #{name}: ok #{values.inspect.split.join(' ')}"
  true
rescue => e
  puts "step #{name}: error #{failure(e).join(' ').split.join(' ')}"
  false
end

def context
  ActiveRecord::MigrationContext.new(File.join(__dir__, "migrate"), ActiveRecord::SchemaMigration)
end

def tables
  ActiveRecord::Base.connection.tables.sort
end

def up
  %w[tables alter default widen].each.with_index(1) do |name, number|
    return unless step(name) { context.up(20260101000000 + number); tables }
  end
  step("again") { context.needs_migration? ? context.migrate : "nothing" }
end

def down
  step("down") { context.down(0); tables }
end

def crud
  author = Author.create!(name: "Frank", email: "frank@example.com")
  author.books.create!(title: "Dune", pages: 412, details: { tags: ["sand"], year: 1965 })
  book = Book.find_by!("details->>'year' = ?", "1965")
  said = [book.title, book.pages, book.details]
  book.update!(pages: book.pages + 88)
  said << Book.where("pages >= 500").update_all("pages = pages + 1") << book.reload.pages
  said << Author.find_or_create_by!(email: "frank@example.com") { |a| a.name = "Other" }.name
  said << Author.upsert_all([{ name: "Herbert", email: "frank@example.com", created_at: Time.now, updated_at: Time.now }], unique_by: :email).length
  said << Author.find_by(name: "Herbert").email
  author.destroy!
  said << Book.count << Author.count
end

def refused
  ActiveRecord::Base.transaction(requires_new: true) { yield }
rescue ActiveRecord::RecordNotUnique, ActiveRecord::InvalidForeignKey => e
  failure(e).first
end

def relations
  authors = %w[ann bob].map { |n| Author.create!(name: n, email: "#{n}@example.com") }
  4.times { |i| authors[i % 2].books.create!(title: "book #{i}", pages: 100 + i) }
  said = Book.includes(:author).order(:title).map { |b| [b.title, b.author.name] }
  said << Author.eager_load(:books).order("authors.name", "books.title").map { |a| [a.name, a.books.map(&:title)] }
  said << Book.joins(:author).group("authors.name").order("authors.name").count << Book.sum(:pages)
  said << refused { Author.create!(name: "again", email: "ann@example.com") }
  said << refused { Book.create!(author: authors[0], title: "book 0") }
  said << refused { Book.insert!({ author_id: 987654, title: "of nobody", created_at: Time.now, updated_at: Time.now }) }
  authors[0].destroy!
  said << Book.count
end

def nested
  Item.transaction do
    Item.create!(name: "outer", value: 1)
    Item.transaction(requires_new: true) do
      Item.create!(name: "lost", value: 2)
      raise ActiveRecord::Rollback
    end
    begin
      Item.transaction(requires_new: true) { 2.times { Counter.create!(name: "twice") } }
    rescue ActiveRecord::RecordNotUnique
    end
    Item.transaction(requires_new: true) { Item.create!(name: "inner", value: 3) }
  end
  said = Item.order(:value).pluck(:name) << Counter.count
  Item.delete_all
  said
end

def bulk
  Item.insert_all!((0...BULK).map { |i| { name: "bulk #{i}", value: i } })
  Item.where("name LIKE 'bulk%'").then { |found| [found.count, found.sum(:value)] }
end

def batches
  (0...ROWS).each_slice(1000) do |numbers|
    Item.transaction { Item.insert_all!(numbers.map { |i| { name: "row #{i}", value: i } }) }
  end
  Item.where("name LIKE 'row%'").count
end

def stream
  count = total = 0
  Item.where("name LIKE 'row%'").find_each do |item|
    count += 1
    total += item.value
  end
  [count, total]
end

# ActiveRecord of this version has no words for it: its users write the statement.
def enum
  connection = ActiveRecord::Base.connection
  connection.execute("CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')")
  connection.create_table(:people) { |t| t.column :now, :mood, null: false }
  person = Class.new(ApplicationRecord) { self.table_name = "people" }
  %w[happy sad].each { |mood| person.create!(now: mood) }
  said = person.order(:now).pluck(:now)
  begin
    person.insert!({ now: "bored" })
  rescue ActiveRecord::StatementInvalid => e
    said << failure(e).first
  end
  connection.drop_table(:people)
  connection.execute("DROP TYPE mood")
  said
end

def writers
  counters = 4.times.map { |i| Counter.create!(name: "shared #{i}") }
  Entry.columns
  threads = WRITERS.times.map do |number|
    Thread.new do
      Thread.current.report_on_exception = false
      TRANSACTIONS.times do |i|
        Entry.transaction do
          counter = counters[(number + i) % 4]
          Entry.create!(counter: counter, label: "#{number}/#{i}")
          Counter.update_counters(counter.id, n: 1)
        end
      end
    ensure
      ActiveRecord::Base.connection_pool.release_connection
    end
  end
  threads.each(&:join)
  [Counter.where("name LIKE 'shared%'").sum(:n), Entry.count]
end

puts "tool #{ActiveRecord::VERSION::MAJOR}.#{ActiveRecord::VERSION::MINOR}"
case PHASE
when "up" then up
when "down" then down
else %w[crud relations nested bulk batches stream writers enum].each { |name| step(name) { send(name) } }
end
