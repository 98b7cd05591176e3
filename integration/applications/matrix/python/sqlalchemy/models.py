from sqlalchemy import JSON, Column, Date, ForeignKey, Integer, String, UniqueConstraint
from sqlalchemy.orm import declarative_base, relationship

Base = declarative_base()


class Author(Base):
    __tablename__ = "author"
    id = Column(Integer, primary_key=True)
    name = Column(String(100), nullable=False)
    email = Column(String(254), unique=True)
    born = Column(Date, index=True)
    books = relationship("Book", back_populates="author", cascade="all, delete-orphan")


class Book(Base):
    __tablename__ = "book"
    __table_args__ = (UniqueConstraint("author_id", "title"),)
    id = Column(Integer, primary_key=True)
    author_id = Column(Integer, ForeignKey("author.id"), nullable=False)
    title = Column(String(200), index=True)
    pages = Column(Integer)
    stock = Column(Integer, nullable=False, server_default="0")
    details = Column(JSON)
    author = relationship("Author", back_populates="books")


class Item(Base):
    __tablename__ = "item"
    id = Column(Integer, primary_key=True)
    name = Column(String(50))
    value = Column(Integer)


class Counter(Base):
    __tablename__ = "counter"
    id = Column(Integer, primary_key=True)
    name = Column(String(50), unique=True)
    n = Column(Integer, default=0, nullable=False)


class Entry(Base):
    __tablename__ = "entry"
    id = Column(Integer, primary_key=True)
    counter_id = Column(Integer, ForeignKey("counter.id"))
    label = Column(String(50))
